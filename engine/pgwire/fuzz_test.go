package pgwire

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// tape is a server that only talks.
type tape struct{ io.Reader }

func (tape) Write(b []byte) (int, error) { return len(b), nil }
func (tape) Close() error                { return nil }
func (tape) interrupt()                  {}

func play(b []byte) *Conn {
	return newConn(tape{bytes.NewReader(b)}, nil, &pgconn.HijackedConn{ParameterStatuses: map[string]string{}})
}

const ready = "Z\x00\x00\x00\x05I"

func FuzzServerBytes(f *testing.F) {
	for _, s := range []string{
		"D\x00\x00\x00\x0e\x00\x02\xff\xff\xff\xff\x00\x00\x00\x00C\x00\x00\x00\x0dSELECT 1\x00" + ready,
		"T\x00\x00\x00\x1a\x00\x01a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x17\x00\x04\xff\xff\xff\xff\x00\x00" + ready,
		"E\x00\x00\x00\x18SERROR\x00C22012\x00Mx\x00\x00" + ready,
		"t\x00\x00\x00\x0a\x00\x01\x00\x00\x00\x17S\x00\x00\x00\x08a\x00b\x00N\x00\x00\x00\x051" + ready,
		"D\x00\x00\x00\x0a\x7f\xff\xff\xff\xff\xff" + ready,
		"D\x40\x00\x00\x00", "Z\x00\x00\x00\x00", "G\x00\x00\x00\x04", "HTTP/1.1 400 Bad Request\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c := play(b)
		for range 1 + len(b)/6 { // every unit needs the six bytes of its ready message
			c.Describe("")
			c.Sync()
			_, err := c.Do(&Handler{
				Columns: func(int, []Column) error { return nil },
				Row:     func(int, [][]byte) error { return nil },
				types:   func([]uint32) {},
			})
			if c.Lost() != nil {
				if !errors.Is(err, ErrLost) {
					t.Fatalf("%q: lost, but said %v", b, err)
				}
				return
			}
		}
		t.Fatalf("%q: goes on after its end", b)
	})
}

func TestAnnouncedLengthIsNotAllocated(t *testing.T) {
	for _, s := range []string{"D\x03\xff\xff\xff", "D\x7f\xff\xff\xff", "D\x03\xff\xff\xff" + strings.Repeat("x", 100_000)} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		c := play([]byte(s))
		c.Query("")
		_, err := c.Do(nil)
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, ErrLost) || got > 2<<20 {
			t.Errorf("%v, %d bytes", err, got)
		}
	}
}

func TestGarbledMessages(t *testing.T) {
	for s, want := range map[string]string{
		"HTTP/1.1 400 Bad Request\r\n":                      "limit",
		"\x00\x00\x00\x00\x00":                              "not the PostgreSQL protocol",
		"Z\x00\x00\x00\x05Q":                                "not the PostgreSQL protocol",
		"D\x00\x00\x00\x0a\x00\x01\x00\x00\x00\x09" + ready: "not the PostgreSQL protocol",
		"D\x00\x00\x00\x07\x00\x00x" + ready:                "not the PostgreSQL protocol",
		"E\x00\x00\x00\x05M" + ready:                        "not the PostgreSQL protocol",
		"":                                                  "closed the connection",
		ready[:4]:                                           "closed the connection",
	} {
		c := play([]byte(s))
		c.Query("")
		_, err := c.Do(&Handler{Row: func(int, [][]byte) error { return nil }})
		if !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", s, err)
		}
	}
}
