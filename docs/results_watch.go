package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"headroom/unit"
)

// aim is a figure that `headroom up` is meant to reach.
type aim struct {
	what, want string
	pattern    string // of the result file
	judge      func(raw []byte) (answer, error)
}

// answer is what was measured, and whether that is enough.
type answer struct{ got, verdict string }

var errLacks = errors.New("it lacks figures")

// judged reads a result file of type R. A judge returns errLacks where the
// file has not what it needs.
func judged[R any](judge func(R) (answer, error)) func([]byte) (answer, error) {
	return func(raw []byte) (answer, error) {
		var r R
		if err := json.Unmarshal(raw, &r); err != nil {
			return answer{}, err
		}
		return judge(r)
	}
}

// verdict says "met", or why not.
func verdict(met bool, why string) string {
	switch {
	case met:
		return "met"
	case why == "":
		return "**not met**"
	}
	return "**not met**: " + why
}

// aimTable is the newest figure for each aim. What has no result file is said
// not to be measured.
func aimTable(dir string, aims []aim) (string, error) {
	var rows [][]string
	for _, a := range aims {
		file, err := newest(dir, a.pattern)
		if err != nil {
			return "", err
		}
		if file == "" {
			rows = append(rows, []string{a.what, a.want, "not measured yet", "–", "–"})
			continue
		}
		raw, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("read result: %w", err)
		}
		got, err := a.judge(raw)
		switch {
		case errors.Is(err, errLacks):
			got = answer{"not measured yet: the file lacks it", "–"}
		case err != nil:
			return "", fmt.Errorf("read result %s: %w", file, err)
		}
		rows = append(rows, []string{a.what, a.want, got.got, got.verdict, "`" + filepath.Base(file) + "`"})
	}
	return table([]string{"what", "goal", "measured", "", "file in bench/results"}, rows), nil
}

// newest is the latest result file of a pattern; "" if there is none.
func newest(dir, pattern string) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		return "", fmt.Errorf("find results: %w", err)
	}
	if len(files) == 0 {
		return "", nil
	}
	return slices.Max(files), nil
}

// The result files of the watch.
const (
	ingestFiles  = "watch-ingest-????-??-??.json"
	hostsFiles   = "watch-hosts-????-??-??.json"
	outageFiles  = "watch-outage-????-??-??.json"
	killFiles    = "watch-kill-????-??-??.json"
	soakFiles    = "watch-soak-????-??-??.json"
	storeFiles   = "store-????-??-??.json"
	agentFiles   = "agent-????-??-??.json"
	collectFiles = "pgcollect-????-??-??.json"
)

// speedAims are told in performance.md, safetyAims in reliability.md.
var speedAims = []aim{
	{"points over HTTP into the store, 2 cores, synced before the answer", "≥ 400 k/s", ingestFiles, judged(ingestRate)},
	{"the same beside VictoriaMetrics, which answers before it syncs: points/s", "≥ 0.5 × theirs", ingestFiles, judged(func(r watchIngest) (answer, error) { return besideVM(r, r.Result.Ratio) })},
	{"the same, points for each CPU-second", "≥ 0.5 × theirs", ingestFiles, judged(func(r watchIngest) (answer, error) { return besideVM(r, r.Result.RatioByCPU) })},
	{"a packed point of host metrics, every 10 s", "≤ 2.5 bytes", storeFiles, judged(packedSize)},
	{"1,000 hosts × 200 series a minute: CPU", "≤ 25 % of one core", hostsFiles, judged(hostsCPU)},
	{"… memory", "≤ 400 MiB", hostsFiles, judged(hostsMemory)},
	{"… lag from queue to commit", "< 2 s", hostsFiles, judged(hostsLag)},
	{"a chart of 2 weeks", "p95 < 150 ms", storeFiles, judged(func(r storeFile) (answer, error) { return asked(r, "2 weeks", 150) })},
	{"a chart of 2 years, days", "p95 < 50 ms", storeFiles, judged(func(r storeFile) (answer, error) { return asked(r, "2 years", 50) })},
	{"agent alone: CPU", "≤ 0.5 % of one core", agentFiles, judged(agentCPU)},
	{"agent alone: memory", "≤ 60 MiB", agentFiles, judged(agentMemory)},
	{"CPU of a sample beside node_exporter, scraped", "compared, no goal", agentFiles, judged(agentSample)},
	{"what collecting takes of a server's transactions/s", "< 0.5 %", collectFiles, judged(collectEffect)},
}

var safetyAims = []aim{
	{"kill -9 of agent, server, PostgreSQL at random", "≥ 500; lost 0, double 0", killFiles, judged(killCount)},
	{"store away for 6 h at 1,000 hosts: points", "lost 0, double 0", outageFiles, judged(outageCount)},
	{"… catching up", "≥ 10 × the live rate", outageFiles, judged(outageSpeed)},
	{"… the page meanwhile", "up, and says so", outageFiles, judged(outagePage)},
	{"12 × the load for 2 h: growth of memory, files, goroutines", "≈ 0: under 1 % an hour", soakFiles, judged(soakSlopes)},
}

func ingestRate(r watchIngest) (answer, error) {
	var rates, acked []float64
	for _, x := range r.Result.Ours {
		rates, acked = append(rates, x.Rate), append(acked, float64(x.Points)/x.Acked)
	}
	if len(rates) == 0 {
		return answer{}, errLacks
	}
	mid, first := median(rates), median(acked)
	why := "it is answered no faster: taking and syncing hold it up"
	if first > 1.2*mid {
		why = fmt.Sprintf("it is answered at %s: the way from the queue into PostgreSQL holds it up", kilo(first))
	}
	return answer{fmt.Sprintf("%s (%s; %d rounds)", kilo(mid), span(rates, kilo), len(rates)), verdict(mid >= 400e3, why)}, nil
}

func kilo(v float64) string { return fmt.Sprintf("%.0f k/s", v/1e3) }

// span is a range as "least–most".
func span(v []float64, text func(float64) string) string {
	return text(slices.Min(v)) + "–" + text(slices.Max(v))
}

func besideVM(r watchIngest, ratio []float64) (answer, error) {
	if len(ratio) == 0 || len(ratio) != len(r.Result.Ours) || len(ratio) != len(r.Result.VictoriaMetrics) {
		return answer{}, errLacks
	}
	each := func(rounds []ingestRound) string {
		var v []float64
		for _, x := range rounds {
			v = append(v, 1e6/x.PointsByCPU)
		}
		return fmt.Sprintf("%.2f µs", median(v))
	}
	two := func(v float64) string { return fmt.Sprintf("%.2f", v) }
	mid := median(ratio)
	return answer{fmt.Sprintf("%.2f × (%s; %d pairs of rounds)", mid, span(ratio, two), len(ratio)),
		verdict(mid >= 0.5, fmt.Sprintf("a point takes %s of CPU, the log and the commit of PostgreSQL included; theirs %s, which nobody waits for to be on disk", each(r.Result.Ours), each(r.Result.VictoriaMetrics)))}, nil
}

func packedSize(r storeFile) (answer, error) {
	if r.Sizes == nil || r.Sizes.Points == 0 {
		return answer{}, errLacks
	}
	return answer{fmt.Sprintf("%.2f bytes with row heads and index, %.2f the packed columns alone (%s points, %d series)", r.Sizes.All, r.Sizes.Columns,
		unit.Format(float64(r.Sizes.Points), unit.Count), r.Sizes.Series), verdict(r.Sizes.All <= 2.5, "")}, nil
}

func hostsCPU(r watchHosts) (answer, error) {
	if r.Result.CPU == 0 {
		return answer{}, errLacks
	}
	return answer{fmt.Sprintf("%.1f %% (one run of %s)", 100*r.Result.CPU, unit.Seconds(r.Result.Seconds)), verdict(r.Result.CPU <= 0.25, fmt.Sprintf("%.1f µs of CPU for a point", 1e6*r.Result.CPU*r.Result.Seconds/float64(max(r.Result.Sent, 1))))}, nil
}

func mib(v float64) string { return fmt.Sprintf("%.1f MiB", v/(1<<20)) }

func hostsMemory(r watchHosts) (answer, error) {
	if r.Result.MemoryMax == 0 {
		return answer{}, errLacks
	}
	ours := mib(float64(r.Result.MemoryOurs))
	return answer{mib(float64(r.Result.MemoryMax)) + " at most, PostgreSQL with its shared_buffers included; Headroom alone " + ours + " at the end", verdict(r.Result.MemoryMax <= 400<<20, "")}, nil
}

func hostsLag(r watchHosts) (answer, error) {
	x := r.Result
	if x.LagMax == 0 {
		return answer{}, errLacks
	}
	return answer{fmt.Sprintf("half under %s, p95 %s, most %s", unit.Seconds(x.LagHalf), unit.Seconds(x.Lag95), unit.Seconds(x.LagMax)), verdict(x.LagMax < 2, "")}, nil
}

// asked is the slowest of the questions whose text begins so.
func asked(r storeFile, begins string, limit float64) (answer, error) {
	var worst *storeQuestion
	for i := range r.Queries {
		q := &r.Queries[i]
		if strings.HasPrefix(q.What, begins) && (worst == nil || q.P95 > worst.P95) {
			worst = q
		}
	}
	if worst == nil || r.History == nil {
		return answer{}, errLacks
	}
	series := r.History.Series
	if begins == "2 years" {
		series = r.History.YearSeries
	}
	return answer{fmt.Sprintf("p95 %s, most %s (the slowest kind: %s; %d runs; %d series stored)", millis(worst.P95), millis(worst.Max), worst.What, worst.Runs, series),
		verdict(worst.P95 < limit, fmt.Sprintf("half under %s; load average of the machine at the start: %.5s", millis(worst.P50), r.Load))}, nil
}

func millis(v float64) string { return unit.Seconds(v / 1e3) }

func killCount(r watchKill) (answer, error) {
	x, n := r.Result, 0
	for _, k := range x.Kills {
		n += k
	}
	if n == 0 || x.Acked == 0 {
		return answer{}, errLacks
	}
	var why []string
	if n < 500 {
		why = append(why, fmt.Sprintf("only %d kills", n))
	}
	if x.Lost+x.Double+x.AgentDouble > 0 {
		why = append(why, "see below")
	}
	if stored := x.Acked - x.Lost + x.Double + x.Phantom; x.Counted != stored {
		why = append(why, fmt.Sprintf("a chart counts %s points where %s are stored", count(x.Counted), count(stored)))
	}
	return answer{fmt.Sprintf("%d kills: %s points acknowledged, %d lost, %d double", n, count(x.Acked), x.Lost, x.Double+x.AgentDouble),
		verdict(len(why) == 0, strings.Join(why, "; "))}, nil
}

func count(n int64) string { return unit.Format(float64(n), unit.Count) }

func outageCount(r watchOutage) (answer, error) {
	x := r.Result
	if x.Sent == 0 || x.CatchUpSeconds == 0 {
		return answer{}, errLacks
	}
	return answer{fmt.Sprintf("%s points sent, %d lost, %d double", count(x.Sent), x.Lost, x.Double), verdict(x.Lost+x.Double == 0, "see below")}, nil
}

func outageSpeed(r watchOutage) (answer, error) {
	x := r.Result
	if x.TimesLive == 0 {
		return answer{}, errLacks
	}
	return answer{fmt.Sprintf("%.0f × (%s in %s, live load going on)", x.TimesLive, rates(x.CatchUpRate), unit.Seconds(x.CatchUpSeconds)), verdict(x.TimesLive >= 10, "")}, nil
}

func outagePage(r watchOutage) (answer, error) {
	x := r.Result
	if x.PageStatus == 0 {
		return answer{}, errLacks
	}
	// 503 is what the health answers while not all is well; 0 or a timeout
	// would be a page that is down.
	up := x.PageStatus == 200 || x.PageStatus == 503
	return answer{fmt.Sprintf("its health answered %d, its status said \"%s\"; that pages load is tested in test/browser", x.PageStatus, told(x.Told, 60)), verdict(up && x.Told != "", "")}, nil
}

// told is the beginning of what a status said, as a cell of a table.
func told(text string, most int) string {
	text, _, _ = strings.Cut(text, "\n")
	text = strings.NewReplacer("|", "/", "`", "'").Replace(text)
	if r := []rune(text); len(r) > most {
		text = string(r[:most]) + "…"
	}
	return text
}

// soakLength is how long it is to run: a day at twelve times the rate.
const soakLength = 2 * 3600

func soakSlopes(r watchSoak) (answer, error) {
	x := r.Result
	if len(x.Samples) < 4 {
		return answer{}, errLacks
	}
	half := x.Samples[len(x.Samples)/2:]
	grows := func(perHour float64, of func(soakSample) float64) float64 {
		sum := 0.0
		for _, s := range half {
			sum += of(s)
		}
		return 100 * perHour / math.Max(sum/float64(len(half)), 1)
	}
	memory := grows(x.MemoryPerHour, func(s soakSample) float64 { return float64(s.Memory) })
	files := grows(x.FilesPerHour, func(s soakSample) float64 { return float64(s.Files) })
	routines := grows(x.GoroutinesPerHour, func(s soakSample) float64 { return s.Goroutines })
	var why []string
	if x.Seconds < 0.99*soakLength {
		why = append(why, fmt.Sprintf("it ran %s, not 2 h", unit.Seconds(x.Seconds)))
	}
	if max(memory, files, routines) > 1 {
		why = append(why, "it grew, or so short a run cannot tell")
	}
	return answer{fmt.Sprintf("memory %+.1f %%, files %+.1f %%, goroutines %+.1f %% an hour (slopes of the second half, %d samples)", memory, files, routines, len(half)),
		verdict(len(why) == 0, strings.Join(why, "; "))}, nil
}
