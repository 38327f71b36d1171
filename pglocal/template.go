package pglocal

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"headroom/fail"
	"headroom/host"
)

// template returns a data folder fresh from initdb, made once per program,
// arguments and boot: initdb runs without fsync, so what it wrote is only
// trusted until the machine restarts. Sweep removes those of earlier boots.
func template(ctx context.Context, o Options, prog program, acct *host.Account) (string, error) {
	sum := sha256.Sum256([]byte(strings.Join(append(initArgs(o), prog.bin, prog.version, fmt.Sprint(acct.UID), "without statistics"), "\x00")))
	dir := filepath.Join(o.Parent, fmt.Sprintf("%s%d-%x", templatePrefix(), prog.major, sum[:6]))
	unlock, err := lock(ctx, dir+".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(filepath.Join(dir, "PG_VERSION")); err == nil {
		return dir, nil
	}
	if err := needSpace(o.Parent, startSpace); err != nil {
		return "", err
	}
	tmp := dir + ".tmp"
	if err := os.RemoveAll(tmp); err != nil {
		return "", fmt.Errorf("make a data folder: %w", err)
	}
	if err := ownedFolder(tmp, acct); err != nil {
		return "", fmt.Errorf("make a data folder: %w", err)
	}
	if err := makeData(ctx, o, prog, acct, tmp); err != nil {
		return "", errors.Join(err, os.RemoveAll(tmp))
	}
	if err := os.Rename(tmp, dir); err != nil {
		return "", fmt.Errorf("make a data folder: %w", err)
	}
	return dir, nil
}

func initArgs(o Options) []string {
	return append([]string{"--no-sync", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C"}, o.InitArgs...)
}

// makeData fills the empty folder dir with initdb.
func makeData(ctx context.Context, o Options, prog program, acct *host.Account, dir string) error {
	o.say("making a data folder for PostgreSQL %s", prog.version)
	if err := initdb(ctx, prog, acct, append([]string{"-D", dir}, initArgs(o)...)); err != nil {
		return fail.Hint(fmt.Errorf("make a data folder: %w", err), "these are initdb's own words; correct what they name, or leave out the arguments given to it")
	}
	// Statistics kept by initdb would be as old as the template in each server
	// made of it: without them a server counts from its own first start.
	err := os.RemoveAll(filepath.Join(dir, "pg_stat"))
	if err == nil {
		err = ownedFolder(filepath.Join(dir, "pg_stat"), acct)
	}
	if err != nil {
		return fmt.Errorf("make a data folder: %w", err)
	}
	return nil
}

// initdb runs initdb so that it ends when we die: the thread it is tied to
// must not end before.
func initdb(ctx context.Context, prog program, acct *host.Account, args []string) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c := host.Cmd{Argv: append([]string{filepath.Join(prog.bin, "initdb")}, args...), As: acct, DieWithUs: syscall.SIGKILL}
	_, err := c.Run(ctx, 1<<16)
	return err
}

// templatePrefix begins the names of this boot's templates.
func templatePrefix() string { return "template-" + (bootID() + "nobootid")[:8] + "-" }
