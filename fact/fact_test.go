package fact

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"headroom/fail"
	"headroom/host"
)

type size struct {
	Total Opt[int64] `json:"total" unit:"bytes" src:"/total"`
	Free  Opt[int64] `json:"free" unit:"bytes" src:"/free"`
}

var reads int

var base = &Source[size]{Name: "test.size", Read: func(_ context.Context, in *In) (size, error) {
	reads++
	b, err := in.ReadFile("/total")
	return size{Total: Known(int64(len(b))), Free: Unknown[int64]("no such counter")}, err
}}

var derived = &Source[int64]{Name: "test.half", Read: func(ctx context.Context, in *In) (int64, error) {
	s, err := From(ctx, in, base)
	return s.Total.Value / 2, err
}}

var probe = &Source[int]{Name: "test.probe", Probe: true, Read: func(context.Context, *In) (int, error) { return 7, nil }}

func TestGatherReadsOnceAndRoundTrips(t *testing.T) {
	reads = 0
	m := &host.Fake{Files: map[string]string{"/total": "12345678"}, Time: time.Unix(1e9, 0)}
	set, err := Gather(context.Background(), m, Options{Host: "h"}, derived, base, probe)
	if err != nil || reads != 1 {
		t.Fatalf("reads = %d, %v", reads, err)
	}
	if got := Get(set, derived); got != 4 {
		t.Errorf("derived = %d", got)
	}
	if why := set.Why(probe); why != "measuring was refused" {
		t.Errorf("probe: %q", why)
	}
	var buf bytes.Buffer
	if err := set.Save(&buf); err != nil {
		t.Fatal(err)
	}
	back, skipped, err := Load(&buf, []Any{base, probe})
	if err != nil || len(skipped) != 1 || skipped[0] != "test.half" {
		t.Fatalf("load: %v, skipped %q", err, skipped)
	}
	if got := Get(back, base); got.Total != Known(int64(8)) || got.Free.Because != "no such counter" {
		t.Errorf("after the round trip: %+v", got)
	}
	if back.Host != "h" || !back.Taken.Equal(time.Unix(1e9, 0)) {
		t.Errorf("header lost: %+v", back)
	}
}

func TestUnknownCarriesItsReason(t *testing.T) {
	set, err := Gather(context.Background(), &host.Fake{}, Options{}, derived)
	if err != nil {
		t.Fatal(err)
	}
	if why := set.Why(derived); !strings.Contains(why, "/total") {
		t.Errorf("why = %q, want the file that is missing", why)
	}
	if !errors.Is(set.Error(derived), fail.ErrAbsent) {
		t.Errorf("the cause is lost: %v", set.Error(derived))
	}
	defer func() {
		if recover() == nil {
			t.Error("Get of an unknown fact must panic")
		}
	}()
	Get(set, derived)
}

func TestLoadRefuses(t *testing.T) {
	for _, bad := range []string{"", "{", `{"format":"x"}`, `{"format":"headroom-facts","schema":9}`,
		`{"format":"headroom-facts","schema":1,"facts":{"test.size":{"value":{"total":"x"}}}}`} {
		if _, _, err := Load(strings.NewReader(bad), []Any{base}); err == nil {
			t.Errorf("Load(%q) must fail", bad)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(`{"format":"headroom-facts","schema":1,"facts":{"test.size":{"value":{"total":1,"free":{"unknown":"x"}}}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		set, _, err := Load(bytes.NewReader(b), []Any{base})
		if (set == nil) == (err == nil) {
			t.Errorf("set %v, err %v", set, err)
		}
	})
}
