package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"headroom/unit"
)

func queueText(raw []byte) (string, error) {
	var r struct {
		Cores      int
		Points     int     `json:"points_per_message"`
		Bytes      int     `json:"bytes_per_message"`
		Seconds    float64 `json:"round_seconds"`
		Rounds     int
		Fsync      float64 `json:"bare_fsync_p50_seconds"`
		Throughput []struct {
			Kind      string
			Producers int
			Messages  float64   `json:"messages_per_second"`
			P50       float64   `json:"put_p50_seconds"`
			P99       float64   `json:"put_p99_seconds"`
			CPU       float64   `json:"cpu_seconds_per_message"`
			Drain     float64   `json:"fetch_and_ack_messages_per_second"`
			Rounds    []float64 `json:"messages_per_second_by_round"`
		}
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return "", err
	}
	if len(r.Throughput) == 0 {
		return "", errLacks
	}
	var rows [][]string
	for _, x := range r.Throughput {
		rows = append(rows, []string{queueKinds[x.Kind], fmt.Sprint(x.Producers), rates(x.Messages) + " (" + span(x.Rounds, rates) + ")", rates(x.Messages * float64(r.Points)),
			unit.Seconds(x.P50), unit.Seconds(x.P99), unit.Seconds(x.CPU), rates(x.Drain)})
	}
	return fmt.Sprintf("Messages of %d points (%d bytes), each synced before it is acknowledged; %d rounds of %g s in turns, %d CPUs, medians with the range. "+
		"The CPU of a message is of the whole process while it puts, the server within it included; reading is not. A bare write and fdatasync of one message took %s, half of the time.\n\n",
		r.Points, r.Bytes, r.Rounds, r.Seconds, r.Cores, unit.Seconds(r.Fsync)) +
		table([]string{"queue", "producers", "messages/s", "points/s", "put, median", "put, p99", "CPU of a message", "read and acknowledged"}, rows), nil
}

// queueKinds says what the kinds of bench/queue are.
var queueKinds = map[string]string{"log": "our log (the default)", "embedded": "JetStream within the program, SyncAlways"}

func queueKillText(raw []byte) (string, error) {
	var r struct {
		Kills []struct {
			Kind    string
			Runs    int     `json:"kills"`
			Acked   int64   `json:"acknowledged"`
			Lost    int64   `json:"acknowledged_and_lost"`
			Again   int64   `json:"delivered_more_than_once"`
			Phantom int64   `json:"delivered_and_never_put"`
			Altered int64   `json:"delivered_and_altered"`
			P50     float64 `json:"reopen_p50_seconds"`
			Max     float64 `json:"reopen_max_seconds"`
		}
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return "", err
	}
	if len(r.Kills) == 0 {
		return "", errLacks
	}
	var rows [][]string
	for _, k := range r.Kills {
		rows = append(rows, []string{queueKinds[k.Kind], fmt.Sprint(k.Runs), count(k.Acked), count(k.Lost), count(k.Altered), count(k.Phantom), count(k.Again), unit.Seconds(k.P50) + ", " + unit.Seconds(k.Max)})
	}
	return "A process with four producers and a slower reader is killed (kill -9) at a random moment, and started again on the same folder; at the end all is read and compared. " +
		"What came more than once was taken by the reader just before a kill: the store skips it by its ID.\n\n" +
		table([]string{"queue", "kills", "acknowledged", "lost", "altered", "never put", "came again", "open again: half under, most"}, rows), nil
}

// powerTests are the tests that take the disk away from the queue, and what
// they do.
var powerTests = []struct{ name, what string }{
	{"TestPowerLoss", "disk in memory: the machine is stopped at every operation that changes it; what was not synced is gone, kept or torn; opened, compared, used again"},
	{"TestFailedOperation", "disk in memory: each operation fails once (I/O error, disk full), and loss of power follows"},
	{"TestPowerCut", "ext4 stopped under four writers without flushing its journal (FS_IOC_SHUTDOWN), mounted anew, all read and compared; what was answered while it was being stopped does not count"},
	{"TestEveryByteFlipped", "a bit flipped in each byte of the files: at most the message that it is in is lost, and that is told"},
	{"TestEveryLength", "each file cut to each length: at most the messages that were cut are lost"},
}

// powerText tells what `go test -json` said of them.
func powerText(raw []byte) (string, error) {
	said, ended := map[string]string{}, map[string]string{}
	for in := bufio.NewScanner(bytes.NewReader(raw)); in.Scan(); {
		var e struct{ Action, Test, Output string }
		if err := json.Unmarshal(in.Bytes(), &e); err != nil {
			return "", err
		}
		switch e.Action {
		case "pass", "fail", "skip":
			ended[e.Test] = e.Action
		case "output":
			if where, text, ok := strings.Cut(strings.TrimSpace(e.Output), ": "); ok && strings.Contains(where, ".go:") {
				said[e.Test], _, _ = strings.Cut(text, ",")
			}
		}
	}
	words := map[string]string{"pass": "nothing acknowledged was lost", "fail": "**failed**", "skip": "not run here", "": "not run"}
	words["damage"] = "no more than that was lost"
	var rows [][]string
	for _, t := range powerTests {
		end := ended[t.name]
		if end == "pass" && strings.HasPrefix(t.name, "TestEvery") {
			end = "damage"
		}
		rows = append(rows, []string{t.what, said[t.name], words[end]})
	}
	return "The plug of a machine was not pulled; these tests come near. A test fails if something that was acknowledged is lost, altered, or comes twice without reason.\n\n" +
		table([]string{"what is done", "how often", "ended"}, rows), nil
}
