package page

import (
	"fmt"
	"math"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"headroom/unit"
)

// sample is a share in use (1: full) at a time.
type sample struct {
	at    time.Time
	value float64
}

// Bounds of what a trend is drawn from and says.
const (
	trendLeast = 24 * time.Hour // a shorter stretch shows the time of day, no trend
	trendMost  = 14 * 24 * time.Hour
	trendLevel = 0.90                 // confidence of the interval
	farOff     = 365 * 24 * time.Hour // what is later is not told
	fewest     = 4.0                  // independent hours below which nothing is told
)

// forecast says when a share in use reaches 1.
type forecast struct {
	Unknown string // why it cannot be told; "" if it can
	// Likely is when it is full if the trend goes on; Soonest and Latest are
	// the ends of the interval. 0: not within a year.
	Likely, Soonest, Latest time.Duration
	PerDay                  float64       // trend: change of the share in a day
	Span                    time.Duration // of the data
}

// foresee draws a straight line through hourly means and asks where it reaches
// 1. Hours that resemble the hour before count for less: the interval is as
// wide as that many independent ones make it.
func foresee(all []sample) forecast {
	if len(all) == 0 {
		return forecast{Unknown: "there are no samples"}
	}
	span := all[len(all)-1].at.Sub(all[0].at)
	f := forecast{Span: span}
	if span < trendLeast {
		f.Unknown = "only " + unit.Seconds(math.Max(span.Seconds(), 60)) + " of data; a day is needed"
		return f
	}
	x, y := hourly(all)
	slope, se, free := line(x, y)
	if math.IsNaN(se) || free < fewest-2 {
		f.Unknown = "it swings too slowly to tell a trend from chance"
		return f
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: free}.Quantile(0.5 + trendLevel/2)
	room := 1 - recent(y)
	f.PerDay = slope * 24
	f.Likely, f.Soonest, f.Latest = until(room, slope), until(room, slope+t*se), until(room, slope-t*se)
	return f
}

// hourly makes means of hours; x is hours since the first.
func hourly(all []sample) (x, y []float64) {
	start := all[0].at
	hour, sum, n := 0.0, 0.0, 0.0
	flush := func() {
		if n > 0 {
			x, y = append(x, hour), append(y, sum/n)
		}
		sum, n = 0, 0
	}
	for _, s := range all {
		if h := math.Floor(s.at.Sub(start).Hours()); h != hour {
			flush()
			hour = h
		}
		sum += s.value
		n++
	}
	flush()
	return x, y
}

// recent is the level now: the mean of the last three hours.
func recent(y []float64) float64 {
	last := y[max(0, len(y)-3):]
	sum := 0.0
	for _, v := range last {
		sum += v
	}
	return sum / float64(len(last))
}

// line fits by least squares. se is the slope's standard error with as many
// independent values as the residuals' resemblance to those before them
// leaves; free is the degrees of freedom of it.
func line(x, y []float64) (slope, se, free float64) {
	n := float64(len(x))
	if n < 3 {
		return math.NaN(), math.NaN(), 0
	}
	mx, my := mean(x), mean(y)
	var xx, xy float64
	for i := range x {
		xx += (x[i] - mx) * (x[i] - mx)
		xy += (x[i] - mx) * (y[i] - my)
	}
	slope = xy / xx
	var rr, lag float64
	before := 0.0
	for i := range x {
		r := y[i] - my - slope*(x[i]-mx)
		rr += r * r
		if i > 0 {
			lag += r * before
		}
		before = r
	}
	like := 0.0
	if rr/n > 1e-10 { // less is rounding
		// What remains of a fit resembles its neighbour less than the errors do.
		like = math.Min(math.Max(0, lag/rr+4/n), 0.98)
	}
	apart := n * (1 - like) / (1 + like)
	free = apart - 2
	if free <= 0 {
		return slope, math.NaN(), free
	}
	return slope, math.Sqrt(rr / (n - 2) / xx * n / apart), free
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// until is how long a share needs to take up room at a slope per hour; 0: more
// than a year, or never.
func until(room, slope float64) time.Duration {
	if slope <= 0 {
		return 0
	}
	hours := math.Max(room, 0) / slope
	if hours > farOff.Hours() {
		return 0
	}
	return max(time.Duration(hours*float64(time.Hour)), time.Minute)
}

// String is the forecast as a person reads it.
func (f forecast) String() string {
	switch {
	case f.Unknown != "":
		return "could not tell: " + f.Unknown
	case f.Soonest == 0 && f.PerDay <= 0:
		return "not filling up"
	case f.Soonest == 0:
		return "not full within a year"
	case f.Likely == 0:
		return "likely not within a year, at the soonest in " + span(f.Soonest)
	case f.Latest == 0:
		return fmt.Sprintf("full in %s (%s at the soonest, or never)", span(f.Likely), span(f.Soonest))
	}
	return fmt.Sprintf("full in %s (%s to %s)", span(f.Likely), span(f.Soonest), span(f.Latest))
}

func span(d time.Duration) string {
	if d >= 48*time.Hour {
		return fmt.Sprintf("%.0f days", d.Hours()/24)
	}
	return unit.Seconds(d.Round(time.Minute).Seconds())
}
