package pglocal

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"headroom/fail"
	"headroom/host"
)

// program is one set of server programs.
type program struct {
	bin     string // folder that holds postgres and initdb
	major   int
	version string // such as "17.11"
}

// installedPlaces are where packages and builds from source put servers.
var installedPlaces = []string{"/usr/lib/postgresql/*/bin/postgres", "/usr/pgsql-*/bin/postgres", "/usr/local/pgsql/bin/postgres", "/usr/lib/postgresql/bin/postgres", "/usr/bin/postgres"}

// majorVar names the major version of servers for which none is asked.
const majorVar = "HEADROOM_MAJOR"

// findProgram chooses the programs: those installed, newest first, else the
// fetched ones.
func findProgram(ctx context.Context, o Options) (program, error) {
	if v := os.Getenv(majorVar); o.Major == 0 && v != "" {
		major, err := strconv.Atoi(v)
		if err != nil || major <= 0 {
			return program{}, fail.With(fail.Hint(fmt.Errorf("read %s: %q is no major version", majorVar, v), "unset it, or name one such as 16"), fail.Usage)
		}
		o.Major = major
	}
	var best program
	for _, p := range installed(ctx) {
		if (o.Major == 0 || p.major == o.Major) && newer(p, best) {
			best = p
		}
	}
	if best.major != 0 {
		return best, nil
	}
	return embedded(ctx, o)
}

func newer(a, b program) bool {
	if a.major != b.major {
		return a.major > b.major
	}
	minor := func(p program) int { // "17.11" and, of a beta, "19beta1"
		_, after, _ := strings.Cut(p.version, ".")
		n, _ := strconv.Atoi(after)
		return n
	}
	return minor(a) > minor(b)
}

// installed lists the servers on this machine that have what it takes: the
// two programs, and a version that they tell.
func installed(ctx context.Context) []program {
	m := machine()
	var bins []string
	for _, place := range installedPlaces {
		found, err := m.Glob(place)
		if err == nil {
			bins = append(bins, found...)
		}
	}
	if out, err := (host.Cmd{Argv: []string{"pg_config", "--bindir"}}).Run(ctx, 4096); err == nil {
		bins = append(bins, filepath.Join(strings.TrimSpace(string(out)), "postgres"))
	}
	var all []program
	seen := map[string]bool{}
	for _, path := range bins {
		real, err := m.Resolve(path)
		if err != nil || seen[real] {
			continue
		}
		seen[real] = true
		if p, err := inspect(ctx, filepath.Dir(real)); err == nil {
			all = append(all, p)
		}
	}
	return all
}

var versionLine = regexp.MustCompile(`\(PostgreSQL\) ((\d+)[.\w]*)`)

// inspect asks the programs in bin for their version.
func inspect(ctx context.Context, bin string) (program, error) {
	if _, err := machine().Stat(filepath.Join(bin, "initdb")); err != nil {
		return program{}, err
	}
	out, err := host.Cmd{Argv: []string{filepath.Join(bin, "postgres"), "--version"}}.Run(ctx, 4096)
	if err != nil {
		return program{}, err
	}
	m := versionLine.FindStringSubmatch(string(out))
	if m == nil {
		return program{}, fmt.Errorf("read the version of %s/postgres: %q: %w", bin, out, fail.ErrAbsent)
	}
	major, err := strconv.Atoi(m[2])
	if err != nil {
		return program{}, err
	}
	return program{bin: bin, major: major, version: m[1]}, nil
}
