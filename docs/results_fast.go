package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"headroom/unit"
)

func rates(v float64) string { return unit.Format(v, unit.PerSecond) }

func upsertText(raw []byte) (string, error) {
	var r struct {
		Server             string
		Cores, Connections int
		Keys               int64
		Seconds            float64
		Settings           map[string]string
		Parts              []struct {
			Name   string
			Median map[string]float64
			Ratios []struct {
				Ours, Peer string
				Goal       float64
				Ratio      struct{ Lo, Center, Hi float64 }
				N          int
			}
		}
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return "", err
	}
	var rows [][]string
	for _, p := range r.Parts {
		for _, x := range p.Ratios {
			peer, best := x.Peer, p.Median[x.Peer]
			if peer == "best" {
				for name, m := range p.Median {
					if strings.HasPrefix(name, "pgx") && m > best {
						peer, best = name, m
					}
				}
			}
			rows = append(rows, []string{p.Name, x.Ours + ": " + rates(p.Median[x.Ours]), peer + ": " + rates(best),
				fmt.Sprintf("%.2f (%.2f–%.2f)", x.Ratio.Center, x.Ratio.Lo, x.Ratio.Hi), goal(x.Goal, x.Ratio.Center), fmt.Sprint(x.N)})
		}
	}
	settings := ""
	for _, name := range slices.Sorted(maps.Keys(r.Settings)) {
		settings += ", " + name + " = " + r.Settings[name]
	}
	return fmt.Sprintf("Rows a second, durable, PostgreSQL %s, %d cores, %d connections, %d keys, rounds of %g s in turns%s. "+
		"\"pgx\" are statements tuned by hand; the ratio is ours to theirs with its 95 %% interval.\n\n", r.Server, r.Cores, r.Connections, r.Keys, r.Seconds, settings) +
		table([]string{"work", "ours", "beside", "ratio", "goal", "rounds"}, rows) + upsertWhy, nil
}

// goal says what was wanted and whether the figure got there.
func goal(want, got float64) string {
	switch {
	case want == 0:
		return "–"
	case got >= want:
		return fmt.Sprintf("%g: met", want)
	}
	return fmt.Sprintf("%g: **not met**", want)
}

// loadGoals are what `load` is meant to reach, by experiment and the beginning
// of the other arm's name.
var loadGoals = []struct {
	experiment, arm string
	want            float64
}{
	{"load into", "COPY", 2}, {"load into", "by hand", 1.2}, {"load into", "pgloader", 3},
	{"append", "", 1}, {"one record", "", 0.9},
}

func loadText(raw []byte) (string, error) {
	var r struct {
		Server, Pgloader string
		Cores            int
		Records, Bytes   int64
		Rounds           int
		Rows             []struct {
			Experiment, Arm, Note string
			Seconds               []float64
			Ratio                 []float64
			Min, Median, Max      float64
			PeakRSS               int64
		}
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return "", err
	}
	var rows [][]string
	peak, last := int64(0), ""
	for _, x := range r.Rows {
		peak = max(peak, x.PeakRSS)
		if len(x.Seconds) == 0 {
			rows = append(rows, []string{x.Experiment, x.Arm, x.Note, "", ""})
			continue
		}
		ratio, want := "", ""
		if first := x.Experiment != last; first {
			last = x.Experiment // the arm that the others are held against
		} else if len(x.Ratio) > 0 {
			ratio = fmt.Sprintf("%.2f (%.2f–%.2f)", x.Median, x.Min, x.Max)
			for _, g := range loadGoals {
				if strings.HasPrefix(x.Experiment, g.experiment) && strings.HasPrefix(x.Arm, g.arm) {
					want = goal(g.want, x.Median)
					break
				}
			}
		}
		rows = append(rows, []string{x.Experiment, x.Arm, unit.Seconds(median(x.Seconds)), ratio, want})
	}
	return fmt.Sprintf("The people table (%d rows, %s; key, btree, full-text GIN), PostgreSQL %s with default settings, %d cores, %d rounds in turns. "+
		"The ratio is the other's time by that of `headroom load` in the same round: above 1 ours is faster; median and range. Largest memory of `headroom load`: %s.\n\n",
		r.Records, unit.Format(float64(r.Bytes), unit.Byte), r.Server, r.Cores, r.Rounds, unit.Format(float64(peak), unit.Byte)) +
		table([]string{"work", "way", "time", "ratio", "goal"}, rows) + loadWhy, nil
}

func kitText(raw []byte) (string, error) {
	type figure struct {
		Way    string
		Ours   bool
		Median float64            `json:"median_seconds"`
		Ratios map[string]float64 `json:"ours_is_faster_by"`
	}
	var r struct {
		Server  string
		Cores   int
		Rounds  int
		Results []struct {
			Task    string
			Figures []figure
		}
		FirstRow []figure `json:"first_row"`
		Counters []struct {
			Way     string
			Writers int
			Median  float64 `json:"median_per_second"`
		}
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return "", err
	}
	var rows [][]string
	for _, t := range r.Results {
		for _, f := range t.Figures {
			var beside []string
			for _, name := range slices.Sorted(maps.Keys(f.Ratios)) {
				beside = append(beside, fmt.Sprintf("%.2f × %s", f.Ratios[name], name))
			}
			rows = append(rows, []string{t.Task, f.Way, unit.Seconds(f.Median), strings.Join(beside, "; ")})
		}
	}
	for _, f := range r.FirstRow {
		rows = append(rows, []string{"until the first row of distinct keys", f.Way, unit.Seconds(f.Median), ""})
	}
	for _, c := range r.Counters {
		rows = append(rows, []string{fmt.Sprintf("additions to one counter, %d writers", c.Writers), c.Way, rates(c.Median), ""})
	}
	return fmt.Sprintf("PostgreSQL %s, %d cores, %d rounds in turns; times are medians. Goals: value_counts 20 × the naive aggregate and 0.7 × GROUP BY; "+
		"distinct keys 100 × SELECT DISTINCT and 0.95 × the recursive query.\n\n", r.Server, r.Cores, r.Rounds) +
		table([]string{"work", "way", "time", "ours is faster by"}, rows) + kitWhy, nil
}

// What stands between the figures and the goals that they miss.
const (
	upsertWhy = "\nThe statements by hand get keys without duplicates, dealt out so that workers never meet, in no order; ours sorts them. " +
		"Where the goals beside multi-VALUES and beside one row per commit are missed: both sides pay for the same new row versions, index look-ups and log, " +
		"and on this disk a commit takes well under a millisecond, which makes single rows quick. The read table's gain is work done later and in another session, not less work: " +
		"see the row that waits for its last refresh.\n"
	loadWhy = "\nAppending little: of a load's time some 60 ms are its own (looking at table and input, journal, connections; seen in the server's statement log), " +
		"which a bare COPY of 0.4 s does not have. Beside a table that was in use for a while the four connections made up for it in runs by hand; in this run they did not.\n"
	kitWhy = "\nThe aggregate value_counts(x) misses 0.7 × GROUP BY, and value_counts(table, column), which writes the GROUP BY itself, meets it. Of the aggregate's 230 ns for an integer's row, " +
		"about 65 are the scan, 35 array_append, 65 unnest and 70 grouping (each step added by itself, PostgreSQL 15): GROUP BY pays for the first and the last only. " +
		"array_append is the one built-in function that adds to a state in place that an unprivileged user may name; a state of any other kind is copied for each row, " +
		"10 µs with ten different values, 120 µs and more with 100,000. Arrays have no such state, and are therefore left to the function. What the workers gathered is grouped in one process.\n\n" +
		"Of a loose scan's key on (device, ts), 7.6 µs, some 5 are the rest of the leaf page, which a btree reads whole where one entry is wanted (2.8 µs where the key is the page's last): " +
		"so with 10,000 rows to a key a query by hand, too, is 60 to 110 × as fast as SELECT DISTINCT, and more so the more rows share a key. " +
		"distinct_keys adds 0.6 ms to look up the index and to plan two queries, and 0.8 µs to a key to make its jsonb and pass it on; distinct_query and distinct_cursor run the bare query.\n"
)

func ingestKillText(raw []byte) (string, error) {
	var r struct {
		Rows int
		Sums map[string]int64
		Runs []struct {
			Kill, Mode string
			Lost       int64 `json:"lost"`
			Missing    int64 `json:"missing"`
			Phantom    int64 `json:"phantom"`
			Twice      int64 `json:"twice"`
			TwiceAcked int64 `json:"twice_acknowledged"`
			Acked      int64 `json:"acknowledged"`
		}
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return "", err
	}
	type sum struct{ runs, acked, lost, missing, phantom, twice, twiceAcked int64 }
	sums := map[string]sum{}
	for _, x := range r.Runs {
		for _, key := range []string{x.Kill + " killed, mode " + x.Mode, "~all"} {
			s := sums[key]
			s.runs++
			s.acked += x.Acked
			s.lost += x.Lost
			s.missing += x.Missing
			s.phantom += x.Phantom
			s.twice += x.Twice
			s.twiceAcked += x.TwiceAcked
			sums[key] = s
		}
	}
	var rows [][]string
	for _, k := range sorted(sums) {
		s := sums[k]
		row := []string{strings.TrimPrefix(k, "~")}
		for _, n := range []int64{s.runs, s.acked, s.lost, s.missing, s.phantom, s.twiceAcked, s.twice - s.twiceAcked} {
			row = append(row, unit.Format(float64(n), unit.Count))
		}
		rows = append(rows, row)
	}
	return fmt.Sprintf("`ingest --durability local` of %d rows, ended at a random moment by kill -9 of the client, of the server or of a back end, and gone on with. "+
		"A checker reads back every key. \"Twice, not acknowledged\" happens in mode `add` only, when the client is killed and the run is resumed: at least once, as documented.\n\n", r.Rows) +
		table([]string{"what", "runs", "acknowledged", "acknowledged and lost", "missing at the end", "never sent", "acknowledged and twice", "twice, not acknowledged"}, rows), nil
}

func loadKillText(raw []byte) (string, error) {
	var r struct {
		Rows []struct{ Mode, Killed, Then, End, Point string }
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return "", err
	}
	points, ends := map[string]bool{}, map[string]int{}
	for _, x := range r.Rows {
		points[x.Point] = true
		ends[x.Killed+" killed, then "+x.Then+": "+x.End]++
	}
	var rows [][]string
	for _, k := range sorted(ends) {
		rows = append(rows, []string{k, fmt.Sprint(ends[k])})
	}
	return fmt.Sprintf("`load`, or its server, is killed (kill -9) at each of the %d points named in the code, then gone on with or taken back. "+
		"Rows and the definitions of indexes, keys and constraints are compared; the test fails on any other end.\n\n", len(points)) + table([]string{"what", "runs"}, rows), nil
}
