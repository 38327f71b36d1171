//go:build crash

package crash

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

var passed atomic.Int64

// At sends a signal to the program itself when HEADROOM_CRASH_AT names this
// point: "name" or "name:3" for the third pass. HEADROOM_CRASH_SIGNAL is the
// signal's number, SIGKILL if unset; the file HEADROOM_CRASH_MARK is written
// first, to show that the point was reached, and by which process. With
// HEADROOM_CRASH_ONCE nothing happens where that file is there already: what
// takes over does not die, too. After a signal that can be caught the program
// has a moment to notice it before it goes on.
func At(name string) {
	want, nth, _ := strings.Cut(os.Getenv("HEADROOM_CRASH_AT"), ":")
	if want != name {
		return
	}
	n, err := strconv.ParseInt(nth, 10, 64)
	if err != nil {
		n = 1
	}
	if passed.Add(1) != n {
		return
	}
	sig := syscall.SIGKILL
	if s, err := strconv.Atoi(os.Getenv("HEADROOM_CRASH_SIGNAL")); err == nil {
		sig = syscall.Signal(s)
	}
	if mark := os.Getenv("HEADROOM_CRASH_MARK"); mark != "" {
		if _, err := os.Stat(mark); err == nil && os.Getenv("HEADROOM_CRASH_ONCE") != "" {
			return
		}
		if err := os.WriteFile(mark, fmt.Appendf(nil, "%s %d\n", name, os.Getpid()), 0o600); err != nil {
			panic(err)
		}
	}
	if err := syscall.Kill(os.Getpid(), sig); err != nil {
		panic(err)
	}
	time.Sleep(50 * time.Millisecond)
}
