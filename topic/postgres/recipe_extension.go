package postgres

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"headroom/change"
	"headroom/fact"
	"headroom/fail"
	"headroom/probe/pg"
)

var extensionRecipe = &change.Recipe{
	ID:     extensionID,
	Object: "NAME",
	Doc: "Installs an extension in the database that is connected to. One that works only when its library is loaded at server start is added to shared_preload_libraries, beside what is there, which takes a restart. " +
		"Revert drops the extension, without what may have come to depend on it, and restores the list.",
	Needs: []fact.Any{pg.Servers, pg.Settings, pg.Extensions, pg.Statements},
	Plan:  planExtension,
}

// preloaded are the extensions that do nothing unless they are loaded at
// server start.
var preloaded = []string{"pg_stat_statements", "pgaudit", "pg_cron", "pg_wait_sampling", "pg_qualstats", "pg_stat_kcache", "timescaledb"}

func planExtension(s *fact.Set, spec change.Spec) (change.Change, error) {
	name := spec.Object
	if name == "" || len(spec.Args) > 0 {
		return change.Change{}, fail.Hint(usage("plan postgres.extension: it takes one NAME and nothing else"), "e.g. postgres.extension pg_stat_statements")
	}
	srv, c := fact.Get(s, pg.Servers), fact.Get(s, pg.Settings)
	if err := changeable(srv, c); err != nil {
		return change.Change{}, fmt.Errorf("plan postgres.extension: %w", err)
	}
	if srv.Recovery {
		return change.Change{}, fail.Hint(fmt.Errorf("plan postgres.extension: this server is a standby and cannot be written to"), "do it on its primary")
	}
	if !slices.ContainsFunc(fact.Get(s, pg.Extensions), func(e pg.Extension) bool { return e.Name == name }) {
		return change.Change{}, fail.Hint(usage("plan postgres.extension: extension %q is not on the server's disk", name), "install its package first, e.g. the server's contrib modules")
	}
	out := change.Change{Spec: spec, Subject: subject(srv, c) + ", database " + pg.Quote(srv.Database), Risk: change.RiskLow, RiskWhy: "it adds objects to the database and changes none"}
	out.Why = fmt.Sprintf("Extension %s is wanted in database %s.", name, pg.Quote(srv.Database))
	if slices.Contains(preloaded, name) {
		list := fact.Get(s, pg.Statements).Preload
		if !list.OK() {
			return change.Change{}, fmt.Errorf("plan postgres.extension: %s must be added to shared_preload_libraries, and %s", name, list.Because)
		}
		if !listed(list.Value, name) {
			out.Restart, out.Risk, out.RiskWhy = true, change.RiskMedium, "the restart cuts every connection and empties shared_buffers"
			out.Steps = append(out.Steps, change.Setting{Restart: true, Values: map[string]string{
				"shared_preload_libraries": strings.TrimPrefix(list.Value+", "+name, ", ")}})
		}
	}
	id, text := pgx.Identifier{name}.Sanitize(), "'"+strings.ReplaceAll(name, "'", "''")+"'"
	out.Steps = append(out.Steps, change.SQL{
		Name: "extension " + pg.Quote(name),
		Do:   "create extension if not exists " + id, Back: "drop extension if exists " + id,
		Check: "select case when count(*) > 0 then 'installed' else 'not installed' end from pg_catalog.pg_extension where extname = " + text,
		Gives: "installed",
	})
	return out, nil
}

// listed says whether a library is in a list such as shared_preload_libraries.
func listed(list, name string) bool {
	for _, e := range strings.Split(list, ",") {
		if strings.Trim(strings.TrimSpace(e), `"`) == name {
			return true
		}
	}
	return false
}
