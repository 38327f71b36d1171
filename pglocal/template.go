package pglocal

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"headroom/fail"
	"headroom/host"
)

// template returns a data folder fresh from initdb, made once per program,
// arguments and boot: initdb runs without fsync, so what it wrote is only
// trusted until the machine restarts. Sweep removes those of earlier boots.
func template(ctx context.Context, o Options, prog program, acct *host.Account) (string, error) {
	args := append([]string{"--no-sync", "--no-instructions", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C"}, o.InitArgs...)
	sum := sha256.Sum256([]byte(strings.Join(append(args, prog.bin, prog.version, fmt.Sprint(acct.UID)), "\x00")))
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
	o.say("making a data folder for PostgreSQL %s", prog.version)
	tmp := dir + ".tmp"
	if err := os.RemoveAll(tmp); err != nil {
		return "", fmt.Errorf("make a data folder: %w", err)
	}
	if err := ownedFolder(tmp, acct); err != nil {
		return "", fmt.Errorf("make a data folder: %w", err)
	}
	argv := append([]string{filepath.Join(prog.bin, "initdb"), "-D", tmp}, args...)
	if _, err := (host.Cmd{Argv: argv, As: acct}).Run(ctx, 1<<16); err != nil {
		err = fmt.Errorf("make a data folder: %w", err)
		return "", fail.Hint(errors.Join(err, os.RemoveAll(tmp)), "see initdb's own words; its arguments can be given with InitArgs only")
	}
	if err := os.Rename(tmp, dir); err != nil {
		return "", fmt.Errorf("make a data folder: %w", err)
	}
	return dir, nil
}

// templatePrefix begins the names of this boot's templates.
func templatePrefix() string { return "template-" + (bootID() + "nobootid")[:8] + "-" }
