package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"headroom/unit"
)

// watchHead is what every result file of bench/watch begins with.
type watchHead struct {
	Date, Part, Go, Server string
	Cores                  int
}

func (h watchHead) machine() string { return fmt.Sprintf("%s, %d CPUs", h.Server, h.Cores) }

type watchIngest struct {
	watchHead
	Result struct {
		What                  string
		Ours, VictoriaMetrics []ingestRound
		Ratio, RatioByCPU     []float64
	}
}

type ingestRound struct {
	Points                                       int
	Acked, Stored, Rate, CPUSeconds, PointsByCPU float64
}

type watchHosts struct {
	watchHead
	Result struct {
		What                   string
		Seconds                float64
		Sent, Stored, Errors   int64
		CPU                    float64
		MemoryMax, MemoryOurs  int64
		LagHalf, Lag95, LagMax float64
	}
}

type watchOutage struct {
	watchHead
	Result struct {
		What                        string
		Sent                        int64
		FeedSeconds                 float64
		QueueBytes                  int64
		Told                        string
		PageStatus                  int
		CatchUpSeconds, CatchUpRate float64
		LiveRate, TimesLive         float64
		Lost, Double                int64
		MemoryMax                   int64
	}
}

type watchKill struct {
	watchHead
	Result struct {
		What                         string
		Kills                        map[string]int
		Requests, Retried            int64
		Acked, Lost, Double, Phantom int64
		Counted                      int64
		RestartHalf, RestartMax      float64
		AgentPoints, AgentDouble     int64
		SetAside                     int64
	}
}

type watchSoak struct {
	watchHead
	Result struct {
		What                                           string
		Seconds                                        float64
		Points, Errors                                 int64
		Samples                                        []soakSample
		MemoryPerHour, FilesPerHour, GoroutinesPerHour float64
	}
}

type soakSample struct {
	At          float64
	Memory, All int64
	Files       int
	Goroutines  float64
	Lag         float64
}

func vmText(raw []byte) (string, error) {
	var r watchIngest
	if err := json.Unmarshal(raw, &r); err != nil {
		return "", err
	}
	if len(r.Result.Ours) == 0 || len(r.Result.VictoriaMetrics) == 0 {
		return "", errLacks
	}
	side := func(name string, rounds []ingestRound) []string {
		var acked, stored, byCPU []float64
		for _, x := range rounds {
			acked, stored, byCPU = append(acked, float64(x.Points)/x.Acked), append(stored, x.Rate), append(byCPU, x.PointsByCPU)
		}
		return []string{name, ranged(acked), ranged(stored), ranged(byCPU), fmt.Sprint(len(rounds))}
	}
	return fmt.Sprintf("%s; %s. The same bodies go to both in turns, flat out, after a round to warm up; medians with their range. "+
		"Ours answers when the samples are synced to disk, and *stored* is when the last is committed in PostgreSQL; VictoriaMetrics (Debian's 1.79) answers when they are in its memory, which is written out seconds later: "+
		"the kinds of safety differ, and its *stored* is its answer. CPU-seconds are the server's, with all its processes (PostgreSQL's too), in the kernel's ticks of 10 ms; the sender's are not counted.\n\n", r.Result.What, r.machine()) +
		table([]string{"side", "points/s answered", "points/s stored", "points for each CPU-second", "rounds"},
			[][]string{side("Headroom", r.Result.Ours), side("VictoriaMetrics", r.Result.VictoriaMetrics)}), nil
}

// ranged is a median of rates with their range, in thousands.
func ranged(v []float64) string {
	k := func(x float64) string { return fmt.Sprintf("%.0f", x/1e3) }
	return k(median(v)) + " k (" + span(v, k) + ")"
}

func hostsText(raw []byte) (string, error) {
	var r watchHosts
	if err := json.Unmarshal(raw, &r); err != nil {
		return "", err
	}
	x := r.Result
	if x.Sent == 0 {
		return "", errLacks
	}
	return fmt.Sprintf("%s, for %s; %s. Its own collectors are off (`--no-collect`). CPU and memory are of `headroom up` and its PostgreSQL together: CPU of all its processes, memory the largest sum of their shares (Pss), looked at once a second; what the senders take is not counted. "+
		"The series are known already: what a new one costs is in the store's figures. Lag is from a batch's arrival in the queue to its commit.\n\n", x.What, unit.Seconds(x.Seconds), r.machine()) +
		table([]string{"what", "figure"}, [][]string{
			{"points sent; stored; requests that failed", fmt.Sprintf("%s; %s; %d", count(x.Sent), count(x.Stored), x.Errors)},
			{"CPU", fmt.Sprintf("%.1f %% of one core", 100*x.CPU)},
			{"memory at most; of Headroom alone, at the end", mib(float64(x.MemoryMax)) + "; " + mib(float64(x.MemoryOurs))},
			{"lag: half under, 95 % under, most", unit.Seconds(x.LagHalf) + ", " + unit.Seconds(x.Lag95) + ", " + unit.Seconds(x.LagMax)},
		}), nil
}

func outageText(raw []byte) (string, error) {
	var r watchOutage
	if err := json.Unmarshal(raw, &r); err != nil {
		return "", err
	}
	x := r.Result
	if x.Sent == 0 {
		return "", errLacks
	}
	return fmt.Sprintf("%s; %s. The six hours' samples were sent as fast as they were taken, so this shows what the queue holds and how it is worked off, not six hours of waiting. Afterwards the points of each host are counted through the API and compared with what was sent.\n\n", x.What, r.machine()) +
		table([]string{"what", "figure"}, [][]string{
			{"points sent while the store was away; sent in", count(x.Sent) + "; " + unit.Seconds(x.FeedSeconds)},
			{"the queue then", unit.Bytes(x.QueueBytes)},
			{"its status said", told(x.Told, 100)},
			{"caught up in, from the store's return", unit.Seconds(x.CatchUpSeconds)},
			{"points/s meanwhile, by the live rate", fmt.Sprintf("%s, %.0f ×", rates(x.CatchUpRate), x.TimesLive)},
			{"points lost; double", fmt.Sprintf("%d; %d", x.Lost, x.Double)},
			{"memory of `headroom up` at most", mib(float64(x.MemoryMax))},
		}), nil
}

func wholeKillText(raw []byte) (string, error) {
	var r watchKill
	if err := json.Unmarshal(raw, &r); err != nil {
		return "", err
	}
	x := r.Result
	if len(x.Kills) == 0 || x.Acked == 0 {
		return "", errLacks
	}
	n, who := 0, ""
	for _, k := range sorted(x.Kills) {
		n += x.Kills[k]
		who += fmt.Sprintf(", %s %d", k, x.Kills[k])
	}
	return fmt.Sprintf("%s. The writers send each request until it is acknowledged, under the same key; at the end every point is read back from PostgreSQL by itself and compared. "+
		"\"Stored, not acknowledged\" are requests that were under way when the test ended. The agent's points are looked at for doubles only: nobody knows what it read. kill -9 leaves the kernel's cache alone: loss of power is tested for the queue, below.\n\n", x.What) +
		table([]string{"what", "figure"}, [][]string{
			{"kills", fmt.Sprintf("%d: %s", n, strings.TrimPrefix(who, ", "))},
			{"requests; sent again", count(x.Requests) + "; " + count(x.Retried)},
			{"points acknowledged", count(x.Acked)},
			{"acknowledged and lost", count(x.Lost)},
			{"double", count(x.Double)},
			{"stored, not acknowledged", count(x.Phantom)},
			{"points of the same series as a chart's query counts them", count(x.Counted)},
			{"the agent's points; double", count(x.AgentPoints) + "; " + count(x.AgentDouble)},
			{"batches set aside", count(x.SetAside)},
			{"from the server's start to its answer: half under, most", unit.Seconds(x.RestartHalf) + ", " + unit.Seconds(x.RestartMax)},
		}), nil
}

func soakText(raw []byte) (string, error) {
	var r watchSoak
	if err := json.Unmarshal(raw, &r); err != nil {
		return "", err
	}
	x := r.Result
	if len(x.Samples) < 4 {
		return "", errLacks
	}
	first, last := x.Samples[len(x.Samples)/2], x.Samples[len(x.Samples)-1]
	var lags []float64
	for _, s := range x.Samples {
		lags = append(lags, s.Lag)
	}
	mb := func(v int64) string { return mib(float64(v)) }
	return fmt.Sprintf("%s, for %s; %s. Slopes are least squares over the second half. Memory (Pss) and files are of `headroom up` alone; connections of senders, which come and go with how busy the machine is, count among the files and goroutines.\n\n", x.What, unit.Seconds(x.Seconds), r.machine()) +
		table([]string{"what", "half way", "at the end", "slope an hour"}, [][]string{
			{"memory", mb(first.Memory), mb(last.Memory), fmt.Sprintf("%+.1f MiB", x.MemoryPerHour/(1<<20))},
			{"memory with PostgreSQL", mb(first.All), mb(last.All), ""},
			{"open files", fmt.Sprint(first.Files), fmt.Sprint(last.Files), fmt.Sprintf("%+.1f", x.FilesPerHour)},
			{"goroutines", fmt.Sprint(first.Goroutines), fmt.Sprint(last.Goroutines), fmt.Sprintf("%+.1f", x.GoroutinesPerHour)},
		}) + fmt.Sprintf("\n%s points sent, %d requests failed, lag at most %s.\n", count(x.Points), x.Errors, unit.Seconds(slices.Max(lags))), nil
}
