package watch

import (
	"slices"
	"testing"
	"time"

	"headroom/change"
	"headroom/metric"
)

// A boot is dated by the clock: when that is set, our own machine was not
// started anew; another's may have been.
func TestAClockThatWasSetIsNoBoot(t *testing.T) {
	m := newMarker("h", change.OpenJournal(testDirs(t)), t.TempDir(), func(string) {})
	tell := func(host string, boot float64) {
		s, err := metric.ParseSeries(`host_boot_time_seconds{host="` + host + `"}`)
		if err != nil {
			t.Fatal(err)
		}
		m.notice(&metric.Batch{Rows: []metric.Row{{Series: s, Points: []metric.Point{{At: time.Now().UnixMilli(), Value: boot}}}}})
	}
	for _, boot := range []float64{1_000_000, 1_000_001, 1_003_600, 1_000_000} {
		tell("h", boot)
		tell("other", boot)
	}
	var got []string
	for _, k := range m.fresh {
		got = append(got, k.Host+": "+k.Text)
	}
	slices.Sort(got)
	want := []string{"h: the clock was set back by 60 min", "h: the clock was set forward by 60 min", "h: the machine was started",
		"other: the machine was started", "other: the machine was started", "other: the machine was started"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
