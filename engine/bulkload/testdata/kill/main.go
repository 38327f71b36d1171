// Command kill is the program that the kill-point test of this package kills:
// `kill load|resume|restore MODE`. Everything lies below KILL_DIR; KILL_DSN is
// the server.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/jackc/pgx/v5"

	"headroom/engine/bulkload"
	"headroom/fail"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	err := run(ctx, os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err, "hint:", fail.HintOf(err))
	}
	os.Exit(fail.Code(err))
}

func run(ctx context.Context, verb, mode string) error {
	dir := os.Getenv("KILL_DIR")
	cfg, err := pgx.ParseConfig(os.Getenv("KILL_DSN"))
	if err != nil {
		return err
	}
	o := bulkload.Options{Config: cfg, Dir: filepath.Join(dir, "state", "load"), Path: filepath.Join(dir, "people.tsv"), Table: "people",
		Rejects: filepath.Join(dir, "rejects"), MaxRejects: -1, Offline: true, NoTriggers: true, Indexes: "drop", Connections: 3,
		Say: func(s string) { fmt.Println(s) }}
	switch mode {
	case "violate":
		o.Path = filepath.Join(dir, "twice.tsv")
	case "minimal":
		o.Path = filepath.Join(dir, "good.tsv")
	case "create":
		o.Path = filepath.Join(dir, "good.tsv")
		o.Table, o.Create = "made", &bulkload.Create{Key: []string{"c1"}}
	case "atomic":
		o.Path, o.Atomic = filepath.Join(dir, "good.tsv"), true
	case "partition":
		o.Table, o.PartitionOf, o.Values = "part_2", "part", "FROM (1) TO (1000000)"
	}
	switch verb {
	case "load":
		_, err = bulkload.Run(ctx, o)
	case "resume":
		_, err = bulkload.Resume(ctx, reference(o))
	case "restore":
		_, err = bulkload.Restore(ctx, reference(o), false)
	}
	if errors.Is(err, fail.ErrAbsent) && verb != "load" { // nothing is open
		fmt.Println("nothing open:", err)
		return nil
	}
	return err
}

func reference(o bulkload.Options) bulkload.Reference {
	return bulkload.Reference{Options: bulkload.Options{Config: o.Config, Dir: o.Dir, Say: o.Say}}
}
