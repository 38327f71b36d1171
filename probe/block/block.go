// Package block reads what stores data here: block devices with their queues
// and stacking, mounted file systems with their room, and how long a read
// takes. It only ever reads.
package block

import (
	"fmt"
	"strconv"
	"strings"

	"headroom/fact"
	"headroom/host"
)

func word(r host.Reader, path string) (string, error) {
	b, err := r.ReadFile(path)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(b)), nil
}

func text(r host.Reader, path string) fact.Opt[string] {
	s, err := word(r, path)
	switch {
	case err != nil:
		return fact.Unknown[string](err.Error())
	case s == "":
		return fact.Unknown[string](path + " is empty")
	}
	return fact.Known(s)
}

// number reads a file that holds one whole number that is not negative, and
// multiplies it.
func number(r host.Reader, path string, factor int64) fact.Opt[int64] {
	s, err := word(r, path)
	if err != nil {
		return fact.Unknown[int64](err.Error())
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > 1<<62/factor {
		return fact.Unknown[int64](fmt.Sprintf("%s holds %.40q, not a size or count", path, s))
	}
	return fact.Known(n * factor)
}

func flag(r host.Reader, path string) fact.Opt[bool] {
	s, err := word(r, path)
	switch {
	case err != nil:
		return fact.Unknown[bool](err.Error())
	case s != "0" && s != "1":
		return fact.Unknown[bool](fmt.Sprintf("%s holds %.40q, not 0 or 1", path, s))
	}
	return fact.Known(s == "1")
}
