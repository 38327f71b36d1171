package pg

import (
	"fmt"
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"headroom/fail"
)

// SQL returns the statement called name for a server of the given major
// version: of the files name.sql and name.VERSION.sql in dir, the one with the
// highest version that is not above the server's. The error wraps
// fail.ErrAbsent where all of them are for newer servers.
func SQL(files fs.FS, dir, name string, major int64) (string, error) {
	list, err := fs.ReadDir(files, dir)
	if err != nil {
		return "", err
	}
	best, from, first := "", int64(-1), int64(math.MaxInt64)
	for _, f := range list {
		base, ok := strings.CutPrefix(strings.TrimSuffix(f.Name(), ".sql"), name)
		if !ok || base != "" && base[0] != '.' {
			continue
		}
		least := int64(0)
		if base != "" {
			if least, err = strconv.ParseInt(base[1:], 10, 64); err != nil {
				continue
			}
		}
		first = min(first, least)
		if least <= major && least > from {
			best, from = f.Name(), least
		}
	}
	if best == "" {
		return "", fmt.Errorf("%w in PostgreSQL %d: it came with %d", fail.ErrAbsent, major, first)
	}
	b, err := fs.ReadFile(files, path.Join(dir, best))
	return string(b), err
}

// Major is the server's major version as it said at connect, without asking;
// through a pooler too. 0 if it did not say.
func Major(tx pgx.Tx) int64 {
	var n int64
	// "15.19 (Debian …)", "18beta1"
	if _, err := fmt.Sscanf(tx.Conn().PgConn().ParameterStatus("server_version"), "%d", &n); err != nil {
		return 0
	}
	return n
}
