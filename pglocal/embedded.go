package pglocal

import (
	"context"
	"fmt"

	"headroom/fail"
)

func embedded(_ context.Context, o Options) (program, error) {
	return program{}, fail.Hint(fmt.Errorf("find PostgreSQL %d on this machine: %w", o.Major, fail.ErrAbsent), "install it: apt-get install postgresql")
}
