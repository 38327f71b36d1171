package main

import (
	"encoding/json"
	"fmt"
	"slices"

	"headroom/unit"
)

// storeFile is a result file of bench/store; a part that did not run is nil.
type storeFile struct {
	Server string
	Cores  int
	Load   string `json:"load_at_start"`
	Writes []storeWriting
	Sizes  *struct {
		Series  int
		Points  int
		PerHour int     `json:"points_in_a_row"`
		Columns float64 `json:"packed_columns"`
		Rows    float64 `json:"with_row_heads"`
		All     float64 `json:"with_index"`
		Note    string
	} `json:"bytes_per_point"`
	Fleet   *storeFleet
	History *struct {
		Series        int
		MinutePoints  int     `json:"points_of_two_weeks"`
		YearSeries    int     `json:"series_of_two_years"`
		BytesMinute   float64 `json:"bytes_per_minute_bucket"`
		BytesHourDay  float64 `json:"bytes_per_series_and_day_of_hours"`
		BytesDay      float64 `json:"bytes_per_day_bucket"`
		ForecastBytes int64   `json:"forecast_bytes_under_the_default_retention"`
	}
	Queries []storeQuestion
}

type cpuSpent struct{ Ours, Server float64 }

type storeWriting struct {
	What      string
	Points    int
	Series    int
	Rate      float64  `json:"points_per_second"`
	WriteNS   cpuSpent `json:"write_cpu_ns_per_point"`
	PackNS    cpuSpent `json:"pack_cpu_ns_per_point"`
	PerCPU    float64  `json:"points_per_cpu_second"`
	NewSeries cpuSpent `json:"new_series_cpu_us_each"`
	P50       float64  `json:"write_p50_ms"`
	P99       float64  `json:"write_p99_ms"`
}

type storeFleet struct {
	Hosts    int
	Series   int
	Minutes  int
	CPU      cpuSpent `json:"cpu_share_of_a_core"`
	Heap     float64  `json:"heap_bytes_most"`
	Catch    float64  `json:"times_the_live_rate"`
	PackSecs float64  `json:"pack_an_hour_seconds"`
	WriteP99 float64  `json:"write_p99_ms"`
}

type storeQuestion struct {
	What   string
	Runs   int
	P50    float64 `json:"p50_ms"`
	P95    float64 `json:"p95_ms"`
	Max    float64 `json:"max_ms"`
	Points int     `json:"values_in_an_answer"`
}

func storeText(raw []byte) (string, error) {
	var r storeFile
	if err := json.Unmarshal(raw, &r); err != nil {
		return "", err
	}
	if len(r.Writes)+len(r.Queries) == 0 && r.Sizes == nil && r.Fleet == nil {
		return "", errLacks
	}
	return fmt.Sprintf("On a private PostgreSQL %s with stock settings, %d CPUs (load average at the start: %s). CPU is told apart: ours, and that of the server's processes.\n", r.Server, r.Cores, r.Load) +
		r.writes() + r.rest() + r.questions(), nil
}

func (r *storeFile) writes() string {
	if len(r.Writes) == 0 {
		return ""
	}
	ns := func(c cpuSpent) string { return fmt.Sprintf("%.0f + %.0f ns", c.Ours, c.Server) }
	var rows [][]string
	for _, w := range r.Writes {
		rows = append(rows, []string{w.What, rates(w.Rate), ns(w.WriteNS), ns(w.PackNS), fmt.Sprintf("%.2f M", w.PerCPU/1e6),
			fmt.Sprintf("%.0f + %.0f µs", w.NewSeries.Ours, w.NewSeries.Server), millis(w.P50) + ", " + millis(w.P99)})
	}
	return "\nWriting, as fast as it goes, one writer, each write committed to disk; one run of each:\n\n" +
		table([]string{"work", "points/s with packing", "CPU of a point, writing (ours + server)", "packing", "points for each CPU-second", "CPU of a new series", "a write: half under, 99 % under"}, rows)
}

func (r *storeFile) rest() string {
	var rows [][]string
	if x := r.Sizes; x != nil {
		rows = append(rows, []string{fmt.Sprintf("a packed point of host metrics every 10 s (%d series, %d points in a row; %s, laid end to end): packed columns; with row heads; with index", x.Series, x.PerHour, x.Note),
			fmt.Sprintf("%.2f; %.2f; %.2f bytes", x.Columns, x.Rows, x.All)})
	}
	if x := r.History; x != nil {
		rows = append(rows, []string{"a minute's bucket; a day of hours of a series; a day's bucket", fmt.Sprintf("%.1f; %.0f; %.0f bytes", x.BytesMinute, x.BytesHourDay, x.BytesDay)})
	}
	if x := r.Fleet; x != nil {
		rows = append(rows,
			[]string{fmt.Sprintf("%d hosts × %d series a minute, %d minutes without HTTP and queue: CPU of one core, ours + server", x.Hosts, x.Series/max(x.Hosts, 1), x.Minutes), fmt.Sprintf("%.1f + %.1f %%", 100*x.CPU.Ours, 100*x.CPU.Server)},
			[]string{"the same: our heap at most; faster than it comes; longest packing; 99 % of writes under", fmt.Sprintf("%s; %.0f ×; %s; %s", mib(x.Heap), x.Catch, unit.Seconds(x.PackSecs), millis(x.WriteP99))})
	}
	if len(rows) == 0 {
		return ""
	}
	return "\n" + table([]string{"what", "figure"}, rows)
}

func (r *storeFile) questions() string {
	if len(r.Queries) == 0 || r.History == nil {
		return ""
	}
	var rows [][]string
	for _, q := range r.Queries {
		rows = append(rows, []string{q.What, millis(q.P50), millis(q.P95), millis(q.Max), fmt.Sprint(q.Points), fmt.Sprint(q.Runs)})
	}
	return fmt.Sprintf("\nQuestions, one after the other, each about other series, with two weeks of minutes of %d series (%s points) and two years of days of %d; nobody writes meanwhile, and all of it fits into the machine's cache:\n\n",
		r.History.Series, count(int64(r.History.MinutePoints)), r.History.YearSeries) + table([]string{"question", "median", "p95", "most", "values", "runs"}, rows)
}

func ingestHTTPText(raw []byte) (string, error) {
	var r struct {
		Cores      int
		Server     int     `json:"server_gomaxprocs"`
		Round      float64 `json:"round_seconds"`
		Rounds     int
		PerRequest int    `json:"points_per_request"`
		Load       string `json:"load_average_at_start"`
		Results    []struct {
			Format, Queue string
			Connections   int
			Rates         []float64 `json:"points_per_second_by_round"`
			CPU           float64   `json:"server_cpu_per_million"`
			P50           float64   `json:"request_p50_seconds"`
			P99           float64   `json:"request_p99_seconds"`
		}
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return "", err
	}
	var rows [][]string
	for _, x := range r.Results {
		if len(x.Rates) == 0 {
			return "", errLacks
		}
		what := x.Format
		if x.Queue == "none" {
			what += ", read and thrown away: what the queue does not cost"
		}
		rows = append(rows, []string{what, fmt.Sprint(x.Connections), rates(median(x.Rates)) + " (" + rates(slices.Min(x.Rates)) + "–" + rates(slices.Max(x.Rates)) + ")",
			unit.Seconds(x.CPU), unit.Seconds(x.P50), unit.Seconds(x.P99)})
	}
	return fmt.Sprintf("Into the queue, without the store: %d points a request, answered when they are synced to disk; the server is a process of its own with %d Go threads of %d CPUs, with guard and token; %d rounds of %g s in turns, medians with the range (load average at the start: %s).\n\n",
		r.PerRequest, r.Server, r.Cores, r.Rounds, r.Round, r.Load) +
		table([]string{"format", "connections", "points/s", "server's CPU for a million", "request, median", "request, p99"}, rows), nil
}
