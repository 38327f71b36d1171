package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"

	"headroom/engine/sample"
	"headroom/host"
)

// empty makes the people table anew, with all its indexes.
func empty() []string {
	return append([]string{"drop table if exists people", sample.PeopleDDL("people")}, sample.PeopleIndexes("people")...)
}

// experiments are what is measured. Every arm ends with the same table: the
// same rows, indexes and key, and statistics where the name says so.
func (l *lab) experiments() []experiment {
	ours := func(file string, want int64, args ...string) arm {
		return arm{"headroom load", func() error {
			if err := l.headroom(append([]string{l.path(file)}, args...)...); err != nil {
				return err
			}
			return l.count(want)
		}}
	}
	all := l.records
	load := experiment{name: "load into an empty table, analyzed after", base: empty(), file: "people.tsv", arms: []arm{
		ours("people.tsv", all),
		{"COPY, indexes in place", func() error {
			return l.steps(all, func() error { return l.copyIn("people.tsv") }, "vacuum analyze people")
		}},
		{"by hand: drop all, COPY, rebuild", func() error { return l.byHand("people.tsv", all, "vacuum analyze people") }},
	}}
	if l.pgloaderVersion() != "" {
		load.arms = append(load.arms,
			arm{"pgloader, indexes in place", func() error { return l.pgloader("people.tsv", all, false) }},
			arm{"pgloader, drop indexes", func() error { return l.pgloader("people.tsv", all, true) }})
	}
	more := l.records + l.records/20
	add := experiment{name: "append 5 % to a loaded table", base: l.loaded(), file: "more.tsv", arms: []arm{
		ours("more.tsv", more),
		{"keep: COPY, indexes in place", func() error { return l.steps(more, func() error { return l.copyIn("more.tsv") }) }},
		{"drop: drop all, COPY, rebuild", func() error { return l.byHand("more.tsv", more) }},
	}}
	return []experiment{load, add, l.bad()}
}

// bad compares clean input with one that has a bad record in a thousand.
func (l *lab) bad() experiment {
	gen := sample.People(1).WithBad(0.001)
	good := int64(0)
	for i := range l.records {
		if !gen.IsBad(i) {
			good++
		}
	}
	return experiment{name: "one record in a thousand bad", base: empty(), file: "bad.tsv", arms: []arm{
		{"headroom load, 0.1 % bad", func() error {
			rejects := l.path("rejects")
			_ = os.Remove(rejects)
			if err := l.headroom(l.path("bad.tsv"), "--rejects", rejects); err != nil {
				return err
			}
			return l.count(good)
		}},
		{"headroom load, clean", func() error {
			if err := l.headroom(l.path("people.tsv")); err != nil {
				return err
			}
			return l.count(l.records)
		}},
	}}
}

// loaded makes the table as it is before an append.
func (l *lab) loaded() []string {
	out := []string{"drop table if exists people", sample.PeopleDDL("people"), fmt.Sprintf("copy people from program 'cat %s'", l.path("people.tsv"))}
	return append(append(out, sample.PeopleIndexes("people")...), "vacuum analyze people")
}

func (l *lab) steps(want int64, first func() error, after ...string) error {
	if err := first(); err != nil {
		return err
	}
	if err := l.exec(after...); err != nil {
		return err
	}
	return l.count(want)
}

// byHand is the best recipe of the source: everything dropped, one COPY,
// everything built again, one after the other, with the server's settings.
func (l *lab) byHand(file string, want int64, after ...string) error {
	err := l.exec("alter table people drop constraint people_pkey", "drop index people_client_id_idx", "drop index people_to_tsvector_idx")
	if err != nil {
		return err
	}
	if err := l.copyIn(file); err != nil {
		return err
	}
	again := append([]string{"alter table people add primary key (id)"}, sample.PeopleIndexes("people")...)
	return l.steps(want, func() error { return l.exec(again...) }, after...)
}

func (l *lab) pgloaderVersion() string {
	path, err := host.FindProgram("pgloader")
	if err != nil {
		return ""
	}
	out, err := exec.CommandContext(l.ctx, path, "--version").Output()
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(string(out), "pgloader version "), "\n")
	return strings.Trim(first, `"`)
}

// pgloader runs a load file: COPY's own text format, as its COPY source reads it.
func (l *lab) pgloader(file string, want int64, drop bool) error {
	with := "truncate"
	if drop {
		with = "truncate, drop indexes"
	}
	uri := fmt.Sprintf("pgsql://%s@unix:%s:%d/%s?people", l.sv.Conn.User, l.sv.Conn.SocketDir, l.sv.Conn.Port, l.sv.Conn.Database)
	script := fmt.Sprintf("LOAD COPY FROM '%s' (%s)\n INTO %s (%s)\n WITH %s;\n", l.path(file), strings.Join(sample.PeopleColumns, ", "), uri,
		strings.Join(sample.PeopleColumns, ", "), with)
	if err := os.WriteFile(l.path("people.load"), []byte(script), 0o644); err != nil {
		return err
	}
	out, err := exec.CommandContext(l.ctx, "pgloader", "--root-dir", l.path("pgloader"), l.path("people.load")).CombinedOutput()
	if err != nil {
		return fmt.Errorf("pgloader: %w: %s", err, out)
	}
	if err := l.exec("vacuum analyze people"); err != nil {
		return err
	}
	if err := l.count(want); err != nil {
		return fmt.Errorf("pgloader: %w: %s", err, out)
	}
	return nil
}
