// Package proc reads what the kernel tells of the machine as a whole: CPU,
// memory, pressure, sysctls, and what keeps them over a reboot. Everything is
// read through a host.Reader, so it works as well on a folder that holds a
// copy of /proc and /sys. Sample is the cheap reading that a trial takes
// around each round.
package proc

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"headroom/fact"
	"headroom/fail"
	"headroom/host"
)

// userHZ is the unit of CPU times in /proc: 100 per second on every
// architecture that Go runs on with Linux.
const userHZ = 100

// because turns an error of reading into the reason kept with a figure.
func because(err error) string {
	if errors.Is(err, fail.ErrAbsent) {
		return "this kernel does not show it"
	}
	return err.Error()
}

// word reads a file that holds one value.
func word(r host.Reader, path string) (string, error) {
	b, err := r.ReadFile(path)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(b)), nil
}

func text(r host.Reader, path string) fact.Opt[string] {
	s, err := word(r, path)
	if err != nil {
		return fact.Unknown[string](because(err))
	}
	return fact.Known(s)
}

func number(r host.Reader, path string) fact.Opt[int64] {
	s, err := word(r, path)
	if err != nil {
		return fact.Unknown[int64](because(err))
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return fact.Unknown[int64](fmt.Sprintf("%s holds %.40q, not a whole number", path, s))
	}
	return fact.Known(n)
}

// chosen reads a list of choices such as "always [madvise] never" and returns
// the one in brackets.
func chosen(r host.Reader, path string) fact.Opt[string] {
	s, err := word(r, path)
	if err != nil {
		return fact.Unknown[string](because(err))
	}
	if _, rest, ok := strings.Cut(s, "["); ok {
		if w, _, ok := strings.Cut(rest, "]"); ok && w != "" {
			return fact.Known(w)
		}
	}
	return fact.Unknown[string](fmt.Sprintf("%s holds %.40q, none of it chosen", path, s))
}

// pairs calls f for each "name: value" or "name value" line.
func pairs(b []byte, f func(name, value string)) {
	for line := range strings.Lines(string(b)) {
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			name, value, ok = strings.Cut(line, " ")
		}
		if ok {
			f(strings.TrimSpace(name), strings.TrimSpace(value))
		}
	}
}
