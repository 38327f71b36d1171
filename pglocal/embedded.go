package pglocal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"headroom/fail"
	"headroom/host"
)

// build is one set of server programs on Maven Central, by
// io.zonky.test.postgres: PostgreSQL's own programs postgres, initdb and
// pg_ctl with its extensions, for any Linux with glibc.
type build struct {
	version string // of the artifact: PostgreSQL's, and a third number
	sha256  string // of the jar; the same is published beside it
}

// newestMajor is what Options.Major 0 means where nothing is installed.
const newestMajor = 18

// builds are the newest published for each machine and major version as of
// this writing. A new one is a new line here: nothing is run that was not
// pinned. There is none of PostgreSQL 13 for arm64.
var builds = map[string]map[int]build{
	"amd64": {
		13: {"13.23.0", "0713b8a6dbe13440718ea789eefca6ae562b004bc0541d9c21d20300529c1db2"},
		14: {"14.24.0", "2722d05eb22c671104c9918d59d8ba9f5656898f5452a0207bb4cce21eef5dc4"},
		15: {"15.19.0", "95f0b66fe72d4ca66c815773c44cb1196ea38552463e89a35f18114b3ed1565f"},
		16: {"16.15.0", "653abc065c682b85d3da50168fb95dc524bd85426cdec9ce3695a550ef431df2"},
		17: {"17.11.0", "0dd7b72b6f335b8ecfb355fa24c5781e8a93edd09880bb77eb52ebbf29b3e96d"},
		18: {"18.6.0", "008ee189eaa7ca2b58bd01dd950291e638b998392cf982297acd4779ec898ac1"},
	},
	"arm64v8": {
		14: {"14.23.0", "a55b93f67051a602be033b298461709f88789dccee925236f2fb5a4eaf9dd526"},
		15: {"15.19.0", "95baf4bd4af31b91b3050118df59388ed0064756b556b850669e0300aa7b9911"},
		16: {"16.15.0", "f846a9989d686b7977d6eca9bc9d8b2b69e3f70c7eb60e032197d9c574a6136c"},
		17: {"17.11.0", "8b042e0ea418b1927d95399207950da0734d27fe01e29503ade3bdc464ad4c2b"},
		18: {"18.4.0", "a9ec284923b9a7d2db41509bfb88c3d0eeb9f4aa5e2b29ea0aac5e8dbaf4c335"},
	},
}

// embedded returns the fetched programs of a major version, and fetches them
// if this is the first time.
func embedded(ctx context.Context, o Options) (program, error) {
	major := o.Major
	if major == 0 {
		major = newestMajor
	}
	arch := runtime.GOARCH
	if arch == "arm64" {
		arch = "arm64v8"
	}
	b, ok := builds[arch][major]
	if !ok {
		return program{}, fail.Hint(fmt.Errorf("find PostgreSQL %d: not installed, and there is no build of it to fetch for %s: %w", major, arch, fail.ErrAbsent),
			"ask for %d to %d, or install it: %s", oldest(arch), newestMajor, aptLine(major))
	}
	if p, ok := kept(ctx, o, b); ok {
		return p, nil
	}
	dir := filepath.Join(o.Parent, "postgresql-"+b.version)
	unlock, err := lock(ctx, dir+".lock")
	if err != nil {
		return program{}, err
	}
	defer unlock()
	bin := filepath.Join(dir, "bin")
	if p, err := inspect(ctx, bin); err == nil {
		return p, nil
	}
	if err := install(ctx, o, b, arch, dir); err != nil {
		return program{}, fail.Hint(fmt.Errorf("get PostgreSQL %d, which is not installed: %w", major, err),
			"install it instead: %s; or name a mirror of Maven Central in %s", aptLine(major), mirrorVar)
	}
	p, err := inspect(ctx, bin)
	if err != nil {
		return program{}, fail.Hint(fmt.Errorf("run the fetched PostgreSQL %d: %w", major, err),
			"these programs need glibc; install PostgreSQL itself: %s", aptLine(major))
	}
	return p, nil
}

// kept returns the programs of a build that an earlier start fetched into the
// folder that is used where none is asked for: a scratch folder needs no
// second copy.
func kept(ctx context.Context, o Options, b build) (program, bool) {
	dirs, err := host.OwnDirs()
	if err != nil {
		return program{}, false
	}
	parent := filepath.Join(dirs.Cache, "pg")
	bin := filepath.Join(parent, "postgresql-"+b.version, "bin")
	if _, err := os.Stat(bin); err != nil || parent == o.Parent {
		return program{}, false
	}
	acct, err := serverAccount()
	if err != nil {
		return program{}, false
	}
	if _, err := ready(parent, acct); err != nil {
		return program{}, false
	}
	p, err := inspect(ctx, bin)
	return p, err == nil
}

// oldest is the oldest major version that there is a build of.
func oldest(arch string) int {
	least := newestMajor
	for major := range builds[arch] {
		least = min(least, major)
	}
	return least
}

// aptLine is what installs a major version on Debian and its kin. Only the
// distribution's own major needs no further package source.
func aptLine(major int) string {
	return fmt.Sprintf("apt-get install postgresql-%d (where apt knows no such package: apt-get install postgresql-common && /usr/share/postgresql-common/pgdg/apt.postgresql.org.sh)", major)
}

// install fetches, checks and unpacks a build. The folder appears under its
// name when it is complete and on disk.
func install(ctx context.Context, o Options, b build, arch, dir string) error {
	if err := needSpace(o.Parent, installSpace); err != nil {
		return err
	}
	tmp := dir + ".tmp"
	if err := errors.Join(os.RemoveAll(tmp), os.RemoveAll(dir)); err != nil {
		return fmt.Errorf("remove an earlier, broken one: %w", err)
	}
	if err := os.Mkdir(tmp, 0o755); err != nil {
		return fmt.Errorf("make a folder for it: %w", err)
	}
	jar, err := fetch(ctx, o, b, arch)
	if err == nil {
		o.say("unpacking PostgreSQL %s", b.version)
		err = unpack(ctx, jar, tmp)
	}
	if err == nil {
		err = os.Rename(tmp, dir)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(tmp))
	}
	return nil
}
