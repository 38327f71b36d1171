package fastpath

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"headroom/engine/bulkload"
	"headroom/engine/record"
	"headroom/lab"
)

// load is the arm of the product: `headroom load` of a file, with its own plan.
func (l loading) load() func(context.Context, *lab.Turn) error {
	return func(ctx context.Context, t *lab.Turn) error {
		f, err := memoryFile(l.data.lines(l.seed, l.rows))
		if err != nil {
			return err
		}
		defer f.Close()
		if err := l.fresh(ctx, t.Stand); err != nil {
			return err
		}
		cfg, err := t.Config()
		if err != nil {
			return err
		}
		format, header := record.Text, false
		err = t.Time(ctx, func(ctx context.Context) (int64, error) {
			r, err := bulkload.Run(ctx, bulkload.Options{Config: cfg, Path: fmt.Sprintf("/proc/self/fd/%d", f.Fd()), Table: "people", Format: &format, Header: &header, Offline: true})
			if err != nil {
				return 0, err
			}
			return r.Rows, t.Exec(ctx, mergePending)
		})
		if err != nil {
			return err
		}
		return checkPeople(ctx, t, l.rows)
	}
}

// memoryFile is a file without a name, gone with this process however it ends.
func memoryFile(text []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("people", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a file in memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), "people")
	if _, err := f.Write(text); err != nil {
		return nil, errors.Join(fmt.Errorf("make a file in memory: %w", err), f.Close())
	}
	return f, nil
}
