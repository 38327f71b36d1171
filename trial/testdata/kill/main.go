// Command kill is the program that the kill-point test of this package kills:
// `kill try MODE` runs a small trial, `kill start` does what the next start of
// the program does. Everything lies below KILL_DIR; KILL_DSN is the live server.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"headroom/change"
	"headroom/fail"
	"headroom/host"
	"headroom/pglocal"
	"headroom/trial"
	"headroom/trial/testdata/tiny"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	err := run(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
	}
	os.Exit(fail.Code(err))
}

func run(ctx context.Context) error {
	dir := os.Getenv("KILL_DIR")
	live := host.Open(host.Options{DSN: os.Getenv("KILL_DSN"), WithPG: true})
	defer live.Close()
	env := trial.Env{Recipes: tiny.Recipes, Parent: filepath.Join(dir, "pg"),
		Dirs: host.Dirs{State: filepath.Join(dir, "state"), Run: filepath.Join(dir, "run"), Cache: filepath.Join(dir, "cache")}}
	if os.Args[1] == "start" {
		return start(ctx, live, env)
	}
	exp := tiny.Quick(tiny.Arm("tiny.setting", "", "work_mem", "9MB"))
	switch os.Args[2] {
	case "live":
		env.Live = &trial.Stand{Name: "live", Host: live, DSN: os.Getenv("KILL_DSN"), Live: true}
		exp.Options.Live = true
	case "machine":
		exp = tiny.Quick(tiny.Arm("tiny.file", filepath.Join(dir, "knob"), "content", "on"))
		exp.Options.Live = true
	case "disk":
		exp = tiny.Quick(tiny.Arm("tiny.file", filepath.Join(dir, "knob"), "content", "on"))
		exp.Workload, exp.Options.Live = tiny.Idle, true
	}
	exp.Options.Budget = time.Minute // it is killed long before; on a busy machine, too, it gets there
	_, err := trial.Run(ctx, exp, env, func(e trial.Event) {
		if e.Text != "" {
			fmt.Println(e.Text)
		}
	})
	return err
}

func start(ctx context.Context, live *host.Local, env trial.Env) error {
	found, err := change.Recover(ctx, live, change.Options{Journal: change.OpenJournal(env.Dirs)})
	for _, f := range found {
		fmt.Println(f.Text)
	}
	if err != nil {
		return err
	}
	swept, err := pglocal.Sweep(ctx, env.Parent)
	for _, s := range swept {
		fmt.Println(s)
	}
	if err != nil {
		return err
	}
	gone, err := trial.SweepScratch(env.Dirs.Cache)
	for _, s := range gone {
		fmt.Println("removed the old scratch folder", s)
	}
	return err
}
