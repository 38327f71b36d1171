package store

import (
	"context"
	"fmt"
	"testing"
	"time"

	"headroom/metric"
)

// BenchmarkWrite stores scrapes of 1000 hosts with 100 series each; one
// operation is one point.
func BenchmarkWrite(b *testing.B) {
	for _, perWrite := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("%d-batches", perWrite), func(b *testing.B) {
			c := newClock("2026-03-01 00:00:00")
			s := openStore(b, base(b, 0), c)
			all := make([][]*metric.Series, 1000)
			for h := range all {
				for i := range 100 {
					all[h] = append(all[h], series(fmt.Sprintf(`m%d_total{host="h%d"}`, i, h)))
				}
			}
			b.ResetTimer()
			for i, h := 0, 0; i < b.N; {
				var bs []*metric.Batch
				for range perWrite {
					x := batch()
					for _, s := range all[h%1000] {
						x.Rows = append(x.Rows, row(s, pt(c.now(), float64(i))))
						i++
					}
					if h++; h%1000 == 0 {
						c.add(time.Second)
					}
					bs = append(bs, x)
				}
				if err := s.Write(context.Background(), bs); err != nil {
					b.Fatal(err)
				}
				if h%1000 == 0 && s.head.size() > s.o.HeadBytes {
					maintain(b, s)
				}
			}
		})
	}
}
