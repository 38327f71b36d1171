// Command kill is the program that the tests of this package kill: one verb
// of the engine on a machine below KILL_ROOT, with the journal in KILL_STATE
// and the server of KILL_DSN.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"headroom/change"
	"headroom/fail"
	"headroom/host"
)

func main() {
	err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
	}
	os.Exit(fail.Code(err))
}

func run(args []string) error {
	dir := os.Getenv("KILL_STATE")
	w := host.Open(host.Options{Root: os.Getenv("KILL_ROOT"), DSN: os.Getenv("KILL_DSN"), WithPG: os.Getenv("KILL_DSN") != ""})
	defer w.Close()
	o := change.Options{
		Journal: change.OpenJournal(host.Dirs{State: filepath.Join(dir, "state"), Run: filepath.Join(dir, "run")}),
		Accept:  strings.Fields(os.Getenv("KILL_ACCEPT")),
		Say:     func(s string) { fmt.Fprintln(os.Stderr, s) },
	}
	if s := os.Getenv("KILL_CONFIRM"); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil {
			return err
		}
		o.ConfirmWithin = d
	}
	o.ConfirmUnseen = os.Getenv("KILL_UNSEEN") != ""
	ctx := context.Background()
	switch args[0] {
	case "apply", "hold":
		f, err := os.Open(os.Getenv("KILL_PLAN"))
		if err != nil {
			return err
		}
		p, err := change.LoadPlan(f)
		if err != nil {
			return err
		}
		if args[0] == "hold" {
			release, err := change.Hold(ctx, w, p, o)
			if err != nil {
				return err
			}
			return release(ctx)
		}
		res, err := change.Apply(ctx, w, p, o)
		fmt.Println(res.ID, res.Phase)
		return err
	case "recover":
		found, err := change.Recover(ctx, w, o)
		for _, f := range found {
			fmt.Println(f.Text)
		}
		return err
	case "revert":
		_, err := change.Revert(ctx, w, args[1], o)
		return err
	case "confirm":
		_, err := change.Confirm(ctx, w, args[1], o)
		return err
	case "guard":
		return change.Guard(ctx, w, args[1], o)
	}
	return fmt.Errorf("unknown verb %q", args[0])
}
