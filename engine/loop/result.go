package loop

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Result is what a run did. All = Done + Failed + Skipped, always; a
// transaction that was cut off by the end of the context is in none of them.
type Result struct {
	All     int64 // begun or, with a rate, due
	Done    int64 // succeeded
	Failed  int64 // ended with a Failure
	Skipped int64 // due, and not begun: later than Limit, or not reached before the end

	Units    int64            // what the done transactions returned, summed up
	Failures map[string]int64 // Failed by code
	First    error            // the first failure of the client with the lowest number; nil if none

	// Seconds is the mean over the clients of the time from the common start
	// until the client's last transaction (and the rest after it) ended, so one
	// client that ends late does not count as idle time of all. With a rate it
	// is at least the duration.
	Seconds float64
	Wall    float64 // seconds from the start until the last client ended

	// Latency of the done transactions in nanoseconds, up to one hour, with
	// three digits; with a rate, from the due time.
	Latency *hdrhistogram.Histogram
}

const longest = int64(time.Hour)

func newResult() *Result {
	return &Result{Failures: map[string]int64{}, Latency: hdrhistogram.New(1, longest, 3)}
}

// Rate is the number of done transactions per second.
func (r *Result) Rate() float64 {
	if r.Seconds <= 0 {
		return 0
	}
	return float64(r.Done) / r.Seconds
}

// Quantile is the latency, in seconds, that the fraction q (0 to 1) of the done
// transactions kept; 0 if none was done.
func (r *Result) Quantile(q float64) float64 {
	return float64(r.Latency.ValueAtQuantile(q*100)) / 1e9
}

// Mean is the mean latency in seconds.
func (r *Result) Mean() float64 { return r.Latency.Mean() / 1e9 }

// Max is the longest latency in seconds.
func (r *Result) Max() float64 { return float64(r.Latency.Max()) / 1e9 }

// Add puts another run of the same workload to this one: counts, times and
// latencies.
func (r *Result) Add(o *Result) {
	r.merge(o)
	r.Seconds += o.Seconds
	r.Wall += o.Wall
}

func (r *Result) merge(o *Result) {
	r.All += o.All
	r.Done += o.Done
	r.Failed += o.Failed
	r.Skipped += o.Skipped
	r.Units += o.Units
	for k, n := range o.Failures {
		r.Failures[k] += n
	}
	if r.First == nil {
		r.First = o.First
	}
	r.Latency.Merge(o.Latency)
}

func (r *Result) record(d time.Duration) {
	// Never an error: the value is within the histogram's range.
	_ = r.Latency.RecordValue(min(max(int64(d), 1), longest))
}

func (r *Result) fail(f *Failure) {
	r.Failed++
	r.Failures[f.Code]++
	if r.First == nil {
		r.First = f
	}
}

func (r *run) sum(parts []*client) *Result {
	total := newResult()
	for _, c := range parts {
		total.merge(c.res)
		total.Seconds += c.res.Seconds / float64(len(parts))
		total.Wall = max(total.Wall, c.res.Seconds)
	}
	if r.plan != nil && r.Transactions == 0 {
		// What was due until now and found no free client.
		end := min(r.Duration, time.Duration(total.Wall*float64(time.Second)))
		for _, ok := r.plan.next(end); ok; _, ok = r.plan.next(end) {
			total.All++
			total.Skipped++
		}
	}
	return total
}
