package host

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"headroom/fail"
)

// Clock is what the kernel says of its wall clock: adjtimex(2).
type Clock struct {
	Synchronised bool          // a time service keeps it
	Offset       time.Duration // what is still to be put right
	MaxError     time.Duration // how far off it may be at worst
}

// Clock implements Reader.
func (l *Local) Clock() (Clock, error) {
	if l.opt.Root != "/" {
		return Clock{}, fmt.Errorf("ask the clock: %w: a folder of files has none", fail.ErrAbsent)
	}
	var t unix.Timex
	if _, err := unix.Adjtimex(&t); err != nil {
		return Clock{}, fmt.Errorf("ask the clock: %w", absent(err))
	}
	per := time.Microsecond
	if t.Status&unix.STA_NANO != 0 {
		per = time.Nanosecond
	}
	return Clock{
		Synchronised: t.Status&unix.STA_UNSYNC == 0,
		Offset:       time.Duration(t.Offset) * per, MaxError: time.Duration(t.Maxerror) * time.Microsecond,
	}, nil
}
