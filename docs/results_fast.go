package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"headroom/unit"
)

func rates(v float64) string { return unit.Format(v, unit.PerSecond) }

// upserts is a result file of bench/upsert.
type upserts struct {
	Server             string
	Cores, Connections int
	Keys               int64
	Seconds            float64
	Settings           map[string]string
	Note               string
	Parts              []upsertPart
}

type upsertPart struct {
	Name   string
	Median map[string]float64
	Costs  map[string]rowCost
	Ratios []struct {
		Ours, Peer string
		Goal       float64
		Ratio      struct{ Lo, Center, Hi float64 }
		N          int
	}
}

// rowCost is what one row takes: CPU seconds, and bytes of the log.
type rowCost struct{ Client, Server, WAL float64 }

func (c rowCost) cpu() float64 { return c.Client + c.Server }

func upsertText(raw []byte) (string, error) {
	var r upserts
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
		table([]string{"work", "ours", "beside", "ratio", "goal", "rounds"}, rows) + upsertWhy + r.note() + r.costs(), nil
}

func (r *upserts) note() string {
	if r.Note == "" {
		return ""
	}
	return "\n" + r.Note + "\n"
}

// simple begins the names of the parts that show what a row costs.
const simple = "beside simple ways"

// costs is what rows take of CPU and log, by way, and what follows from that.
func (r *upserts) costs() string {
	micro := func(v float64) string { return fmt.Sprintf("%.1f µs", 1e6*v) }
	var rows [][]string
	why := ""
	for _, p := range r.Parts {
		if !strings.HasPrefix(p.Name, simple) && p.Name != splitName {
			continue
		}
		arms := slices.Sorted(maps.Keys(p.Costs))
		if p.Name == splitName {
			arms = splitArms[:]
		}
		for _, arm := range arms {
			c := p.Costs[arm]
			rows = append(rows, []string{p.Name, arm, rates(p.Median[arm]), micro(c.Client), micro(c.Server), unit.Format(math.Round(c.WAL), unit.Byte)})
		}
		for _, x := range p.Ratios {
			ours, peer := p.Costs[x.Ours], p.Costs[x.Peer]
			if x.Goal > x.Ratio.Center && ours.cpu() > 0 {
				why += fmt.Sprintf("Why %s misses its goal beside %s, %s: a row takes %s of CPU where theirs takes %s, %.2f × as much, and %.0f %% of ours is the server's. ",
					x.Ours, x.Peer, strings.TrimPrefix(p.Name, simple+", "), micro(ours.cpu()), micro(peer.cpu()), peer.cpu()/ours.cpu(), 100*ours.Server/ours.cpu())
			}
		}
		if c := p.Costs; p.Name == splitName {
			why += fmt.Sprintf("Of a hand-written upsert of 1,000 rows the server spends on a row: %s on taking it over and parsing it, %s on looking its key up, %s on the new row version and its index entries, %s on the log. ",
				micro(c[splitArms[0]].Server), micro(c[splitArms[1]].Server-c[splitArms[0]].Server), micro(c[splitArms[2]].Server-c[splitArms[1]].Server), micro(c[splitArms[3]].Server-c[splitArms[2]].Server))
		}
	}
	if len(rows) == 0 {
		return ""
	}
	return "\n" + table([]string{"work", "way", "rate", "client CPU of a row", "server CPU of a row", "log of a row"}, rows) + "\n" + strings.TrimSpace(why) + "\n"
}

// The part that takes an upsert apart, each arm with more in it than the one before.
const splitName = "where a row's time goes"

var splitArms = [...]string{"handed over and parsed", "and its key looked up", "and written, without log", "and written, with log"}

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
			Factor                float64
		}
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return "", err
	}
	var rows [][]string
	peak, last, guess := int64(0), "", ""
	least, most := 1<<30, 0
	for _, x := range r.Rows {
		peak = max(peak, x.PeakRSS)
		if len(x.Seconds) == 0 {
			rows = append(rows, []string{x.Experiment, x.Arm, x.Note, "", ""})
			continue
		}
		least, most = min(least, len(x.Seconds)), max(most, len(x.Seconds))
		if x.Factor > 0 {
			guess += fmt.Sprintf("; %s: %.2f", x.Experiment, x.Factor)
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
	if guess != "" {
		guess = "\nEstimate of `load --plan` by the real time, medians (its part for VACUUM ANALYZE included)" + guess + ".\n"
	}
	rounds := fmt.Sprint(most)
	if least < most {
		rounds = fmt.Sprintf("%d to %d", least, most)
	}
	return fmt.Sprintf("The people table (%d rows, %s; key, btree, full-text GIN), PostgreSQL %s with default settings, %d cores, %s rounds in turns. "+
		"The ratio is the other's time by that of `headroom load` in the same round: above 1 ours is faster; median and range. Largest memory of `headroom load`: %s.\n\n",
		r.Records, unit.Format(float64(r.Bytes), unit.Byte), r.Server, r.Cores, rounds, unit.Format(float64(peak), unit.Byte)) +
		table([]string{"work", "way", "time", "ratio", "goal"}, rows) + loadWhy + guess, nil
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
		"After a checkpoint the first change of each page puts the whole page into the log, for all ways alike; between checkpoints, most of the time on a server in use, it does not. " +
		"The read table's gain is work done later and in another session, not less work: see the row that waits for its last refresh.\n"
	loadWhy = "\nAppending little: the time of `headroom load` is that of the whole program: its start, the look at table and input, journal, connections. COPY's is one statement on a connection that is open. " +
		"Rows that go into a GIN index queue for its list of new entries, which is why two connections carry them and not four.\n"
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
		"A checker reads back every key; in mode `add` each must have been added once.\n\n", r.Rows) +
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
