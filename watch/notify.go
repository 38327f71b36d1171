package watch

import (
	"context"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// ready tells systemd, if it started us, that we answer.
func ready(status string) {
	_, _ = daemon.SdNotify(false, daemon.SdNotifyReady+"\nSTATUS="+status) // not started by systemd: nobody to tell
}

// stopping tells systemd that the end was asked for.
func stopping() { _, _ = daemon.SdNotify(false, daemon.SdNotifyStopping) }

// watchdog tells systemd that we live, for as long as alive says so, at half
// the interval that the unit asks for; without one it does nothing.
func watchdog(ctx context.Context, alive func() bool) error {
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil || every == 0 {
		return nil
	}
	tick := time.NewTicker(every / 2)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if alive() {
				_, _ = daemon.SdNotify(false, daemon.SdNotifyWatchdog)
			}
		}
	}
}
