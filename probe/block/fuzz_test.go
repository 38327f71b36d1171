package block

import (
	"math"
	"reflect"
	"testing"

	"headroom/host"
)

func FuzzArrays(f *testing.F) {
	f.Add("md0 : active raid1 sdb1[1] sda1[0](F)\n      9 blocks [2/1] [_U]\n      [==>.]  recovery = 12.6% (3/4) finish=1.5min speed=33440K/sec\n\nmd1 : inactive sdk[0](S)\n\tresync=DELAYED\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, a := range ParseArrays([]byte(text)) {
			if !(a.Progress >= 0 && a.Progress <= 1) || a.Degraded() < 0 || a.Speed < 0 {
				t.Errorf("%+v", a)
			}
		}
	})
}

func FuzzStats(f *testing.F) {
	f.Add(" 259 0 nvme0n1 777834 51850 76893562 1578135 14101784 1042269 1915643864 11670416 3 1509604 13846274 1033795 195 619416016 256648 4446470 341073\n")
	f.Fuzz(func(t *testing.T, text string) {
		stats, err := ReadStats(&host.Fake{Files: map[string]string{"/proc/diskstats": text}})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range stats {
			v := reflect.ValueOf(s)
			for i := range v.NumField() {
				if x := v.Field(i); x.CanFloat() && (x.Float() < 0 || math.IsNaN(x.Float()) || math.IsInf(x.Float(), 0)) {
					t.Errorf("%+v", s)
				}
			}
		}
	})
}
