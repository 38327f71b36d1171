package nginx

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"headroom/host"
)

// rotating is a log that is written, rotated in every way, and read by a tail
// that is restarted now and then.
type rotating struct {
	t       *rapid.T
	dir     string
	r       host.Reader
	tail    Tail
	written int // lines: their numbers
	got     []string
	dated   bool // log-0001 instead of log.1
	rotated int
}

func (x *rotating) log() string { return filepath.Join(x.dir, "access.log") }

func (x *rotating) must(err error) {
	if err != nil {
		x.t.Fatal(err)
	}
}

func (x *rotating) write(file string, n int) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	x.must(err)
	for range n {
		x.written++
		_, err = fmt.Fprintf(f, "line %d %s\n", x.written, strings.Repeat("x", x.written*7%900))
		x.must(err)
	}
	x.must(f.Close())
}

// aside is the name that the log gets next; the others make room for it.
func (x *rotating) aside() string {
	x.rotated++
	if x.dated {
		return fmt.Sprintf("%s-%04d", x.log(), x.rotated)
	}
	for i := x.rotated; i > 1; i-- {
		_ = os.Rename(fmt.Sprintf("%s.%d", x.log(), i-1), fmt.Sprintf("%s.%d", x.log(), i))
	}
	return x.log() + ".1"
}

// rename rotates as logrotate does; some of nginx's workers write to the old
// file for a moment.
func (x *rotating) rename(late int) {
	old := x.aside()
	x.must(os.Rename(x.log(), old))
	x.write(x.log(), 0)
	x.write(old, late)
}

func (x *rotating) copyAndCut() {
	b, err := os.ReadFile(x.log())
	x.must(err)
	x.must(os.WriteFile(x.aside(), b, 0o644))
	x.must(os.Truncate(x.log(), 0))
}

func (x *rotating) read(budget int) {
	_, err := x.tail.More(x.t.Context(), x.r, budget, func(l string) { x.got = append(x.got, strings.Join(strings.Fields(l)[:2], " ")) })
	x.must(err)
}

func (x *rotating) restart() {
	s, _ := x.tail.State()
	b, err := json.Marshal(s)
	x.must(err)
	var back State
	x.must(json.Unmarshal(b, &back))
	x.tail = Tail{Path: x.tail.Path}
	x.tail.Resume(back)
}

// Each line is counted once, whatever rotation and restarts do between two
// looks. The one thing that no file tells: a log that was empty when it was
// last read and was copied and cut since.
func TestEachLineOnceThroughRotation(t *testing.T) {
	top := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		x := &rotating{t: t, dir: filepath.Join(top, fmt.Sprint(n)), dated: rapid.Bool().Draw(t, "dated")}
		x.must(os.Mkdir(x.dir, 0o755))
		x.r, x.tail = host.Open(host.Options{Root: x.dir}), Tail{Path: "/access.log"}
		x.must(os.WriteFile(x.log(), []byte("from before\n"), 0o644))
		x.read(1 << 20)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 6).Draw(t, "step") {
			case 0, 1:
				x.write(x.log(), rapid.IntRange(1, 20).Draw(t, "lines"))
			case 2:
				x.rename(rapid.IntRange(0, 3).Draw(t, "late"))
			case 3:
				if x.tail.at.Off > 0 {
					x.copyAndCut()
				}
			case 4:
				x.restart()
			case 5:
				x.read(rapid.SampledFrom([]int{1, 3000, 1 << 20}).Draw(t, "budget"))
			case 6:
				x.read(1 << 20)
				x.restart()
			}
		}
		x.write(x.log(), 1)
		for range 4 {
			x.read(1 << 20)
		}
		var want []string
		for i := range x.written {
			want = append(want, fmt.Sprintf("line %d", i+1))
		}
		slices.Sort(want)
		slices.Sort(x.got)
		if !slices.Equal(x.got, want) {
			t.Errorf("%d lines, want %d: %v", len(x.got), len(want), x.got)
		}
	})
}

// A file that got the inode of the one before, or was cut and grew past where
// we were, is another file.
func TestAnotherFileInTheSamePlace(t *testing.T) {
	x := newTailing(t)
	x.add("access.log", "a line from before\n")
	x.want(1 << 20)
	path := filepath.Join(x.dir, "access.log")
	x.do(os.Truncate(path, 0)) // and no copy
	x.add("access.log", "a new line that is longer than that\nmore\n")
	x.want(1<<20, "a new line that is longer than that", "more")
	s, _ := x.tail.State()
	x.tail = Tail{Path: "/access.log"}
	x.tail.Resume(s)
	x.want(1 << 20)
	x.do(os.WriteFile(path, []byte(strings.Repeat("z", 60)+"\n"), 0o644))
	x.want(1<<20, strings.Repeat("z", 60))
}
