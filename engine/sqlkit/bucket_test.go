package sqlkit_test

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestBucket(t *testing.T) {
	each(t, func(t *testing.T, major int) {
		c := kit(t, major)
		must(t, c, "set timezone = 'Europe/Berlin'")
		for _, x := range []struct{ call, want string }{
			{"bucket(17, 10)", "10"}, {"bucket(-1, 10)", "-10"}, {"bucket(-10, 10)", "-10"}, {"bucket(17, 10, 5)", "15"}, {"bucket(4, 10, 5)", "-5"},
			{"bucket(17::bigint, 10)", "10"}, {"bucket(17::smallint, 10)", "10"}, {"bucket(null::int, 10)", "-"},
			{"bucket(17.25, 0.5)", "17"}, {"bucket(-17.25, 0.5)", "-17.5"}, {"bucket(8.999999999999999999999999999, 3)", "6"}, {"bucket('NaN'::numeric, 3)", "NaN"},
			{"bucket(0.3::float8, 0.1)", "0.3"}, {"bucket(0.1::float8 + 0.2, 0.1)", "0.3"}, {"bucket('-Infinity'::float8, 1)", "-Infinity"}, {"bucket('NaN'::float8, 1)", "NaN"},
			{"bucket('2024-05-07 13:45'::timestamp, '1 hour')", "2024-05-07 13:00:00"}, {"bucket('2024-05-07'::timestamp, '1 week')", "2024-05-06 00:00:00"},
			{"bucket('1999-12-31 23:59:59.999999'::timestamp, '1 day')", "1999-12-31 00:00:00"}, {"bucket('2024-05-07'::timestamp, '3 months')", "2024-04-01 00:00:00"},
			{"bucket('1999-05-07'::timestamp, '1 year')", "1999-01-01 00:00:00"}, {"bucket('infinity'::timestamp, '1 year')", "infinity"},
			{"bucket('2024-05-07'::timestamp, '1 month', '2000-01-15')", "2024-04-15 00:00:00"}, {"bucket('2024-05-07 00:00:00.3'::timestamp, '0.1 s')", "2024-05-07 00:00:00.3"},
			// A summer day is a day of the session's zone; hours are exact across the change.
			{"bucket('2024-07-01 23:30+00'::timestamptz, '1 day')", "2024-07-02 00:00:00+02"}, {"bucket('2024-10-27 00:30+00'::timestamptz, '1 hour')", "2024-10-27 02:00:00+02"},
			{"bucket('2024-10-27 01:30+00'::timestamptz, '1 hour')", "2024-10-27 02:00:00+01"}, {"bucket('2024-05-07 13:45'::timestamptz, '1 month')", "2024-05-01 00:00:00+02"},
			{"bucket('2024-05-07'::date, '1 week')", "2024-05-06"}, {"bucket('37 hours'::interval, '12 hours')", "36:00:00"},
			{"bucket(17, array[0, 18, 65])", "[0,18)"}, {"bucket(-1, array[0, 18, 65])", "(,0)"}, {"bucket(65, array[0, 18, 65])", "[65,)"}, {"bucket(17.5, array[0, 18])", "[0,18)"},
			{"bucket('2024-05-07'::date, array['2024-01-01', '2025-01-01']::date[])", "[2024-01-01,2025-01-01)"}, {"bucket(null::int, array[0, 18, 65])", "-"},
			{"bucket('b'::text, array['a', 'c'])", "[a,c)"},
		} {
			got, err := value(c, "select headroom."+x.call)
			if err != nil {
				got = err.Error()
			}
			if got != x.want {
				t.Errorf("%s = %s, want %s", x.call, got, x.want)
			}
		}
		for _, call := range []string{"bucket(1, 0)", "bucket(1, -5)", "bucket(1.5, -1)", "bucket(now(), '0 s')", "bucket(now()::timestamp, '-1 day')", "bucket(now(), '1 month 1 day')",
			"bucket(1, array[3, 2])", "bucket(1, array[2, 2])", "bucket(1, array[1, null])"} {
			refused(t, c, "22023", "select headroom."+call)
		}
		if got := one(t, c, "select headroom.value_counts(headroom.bucket(x, array[1, 3])) from generate_series(0, 4) x"); got != `{"(,1)": 1, "[3,)": 2, "[1,3)": 2}` {
			t.Error(got)
		}
	})
}

// TestBucketHolds: a bucket's bound is a whole number of widths from the
// origin, at or below the value and less than a width away.
func TestBucketHolds(t *testing.T) {
	c := kit(t, 0)
	rapid.Check(t, func(r *rapid.T) {
		x := rapid.Int64Range(math.MinInt64/4, math.MaxInt64/4).Draw(r, "x")
		w := rapid.Int64Range(1, math.MaxInt64/4).Draw(r, "width")
		o := rapid.Int64Range(-1000, 1000).Draw(r, "origin")
		for _, typ := range []string{"bigint", "numeric"} {
			q := fmt.Sprintf("select b <= x and x - b < w and (b - o) %% w = 0 from (select headroom.bucket(x, w, o) as b, x, w, o from (select %d::%s as x, %d::%s as w, %d::%s as o) s) s", x, typ, w, typ, o, typ)
			if one(r, c, q) != "true" {
				r.Fatalf("%s", q)
			}
		}
		us := x / 1000000
		q := fmt.Sprintf("select b <= x and x < b + w from (select headroom.bucket(x, w) as b, x, w from (select timestamp '2020-01-01' + %d * interval '1 microsecond' as x, %d * interval '1 microsecond' as w) s) s", us, w%86400000000+1)
		if one(r, c, q) != "true" {
			r.Fatalf("%s", q)
		}
	})
}
