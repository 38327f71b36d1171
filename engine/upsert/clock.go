package upsert

import (
	"bytes"
	"encoding/binary"
	"math"
)

const (
	daySeconds = 86400
	y2000      = 730425 // days from 0000-03-01 to 2000-01-01
)

// moment is an ISO date, with a time and a zone perhaps.
type moment struct {
	days     int64 // since 2000-01-01
	micros   int64 // since midnight
	time     bool
	zone     bool
	offset   int64 // seconds east of UTC
	infinite int   // -1 or 1
}

// parseMoment reads what PostgreSQL itself writes with DateStyle ISO, and RFC
// 3339; of all else it answers false, and the server is asked.
func parseMoment(s []byte) (m moment, ok bool) {
	switch string(s) {
	case "infinity":
		return moment{infinite: 1}, true
	case "-infinity":
		return moment{infinite: -1}, true
	}
	s, bc := bytes.CutSuffix(s, []byte(" BC"))
	n := 0
	for n < len(s) && n < 8 && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	if n < 4 || n > 7 || len(s) < n+6 || s[n] != '-' || s[n+3] != '-' {
		return m, false
	}
	year, _ := parseInt(s[:n])
	month, ok1 := two(s[n+1:])
	day, ok2 := two(s[n+4:])
	if bc {
		year = 1 - year
	}
	if !ok1 || !ok2 || month < 1 || month > 12 || day < 1 || day > monthDays(year, month) || year > 5874897 || year < -4712 || !bc && year == 0 {
		return m, false
	}
	m.days = civil(year, month, day)
	s = s[n+6:]
	if len(s) == 0 {
		return m, true
	}
	if s[0] != ' ' && s[0] != 'T' {
		return m, false
	}
	if s, ok = m.clock(s[1:]); !ok {
		return m, false
	}
	return m, m.setZone(s)
}

func two(s []byte) (int64, bool) {
	if len(s) < 2 || s[0] < '0' || s[0] > '9' || s[1] < '0' || s[1] > '9' {
		return 0, false
	}
	return int64(s[0]-'0')*10 + int64(s[1]-'0'), true
}

// clock reads hh:mm[:ss[.ffffff]] and returns what follows.
func (m *moment) clock(s []byte) ([]byte, bool) {
	h, ok1 := two(s)
	if !ok1 || h > 23 || len(s) < 5 || s[2] != ':' {
		return s, false
	}
	min, ok2 := two(s[3:])
	if !ok2 || min > 59 {
		return s, false
	}
	m.time = true
	m.micros = (h*3600 + min*60) * 1e6
	s = s[5:]
	if len(s) == 0 || s[0] != ':' {
		return s, true
	}
	sec, ok3 := two(s[1:])
	if !ok3 || sec > 59 {
		return s, false
	}
	m.micros += sec * 1e6
	s = s[3:]
	if len(s) == 0 || s[0] != '.' {
		return s, true
	}
	s = s[1:]
	digits := 0
	for unit := int64(100000); len(s) > 0 && s[0] >= '0' && s[0] <= '9'; unit /= 10 {
		m.micros += int64(s[0]-'0') * unit
		s = s[1:]
		digits++
	}
	return s, digits >= 1 && digits <= 6 // more are rounded by the server
}

// setZone reads Z, or ±hh[[:]mm[:ss]], or nothing.
func (m *moment) setZone(s []byte) bool {
	if len(s) == 0 {
		return true
	}
	m.zone = true
	if string(s) == "Z" {
		return true
	}
	sign := int64(1)
	if s[0] == '-' {
		sign = -1
	} else if s[0] != '+' {
		return false
	}
	s = s[1:]
	for _, unit := range []int64{3600, 60, 1} {
		v, ok := two(s)
		if !ok || unit < 3600 && v > 59 || v > 15 && unit == 3600 {
			return false
		}
		m.offset += sign * v * unit
		if s = s[2:]; len(s) == 0 {
			return true
		}
		if s[0] == ':' {
			s = s[1:]
		} else if unit == 60 {
			return false
		}
	}
	return false
}

func monthDays(y, m int64) int64 {
	switch m {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if y%4 == 0 && (y%100 != 0 || y%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

// civil is the days from 2000-01-01 to a date of the Gregorian calendar
// carried back without end, as PostgreSQL counts.
func civil(y, m, d int64) int64 {
	if m <= 2 {
		y--
	}
	era := y / 400
	if y < 0 {
		era = (y - 399) / 400
	}
	inEra := y - era*400
	month := (m + 9) % 12 // from March
	inYear := (153*month+2)/5 + d - 1
	return era*146097 + inEra*365 + inEra/4 - inEra/100 + inYear - y2000
}

// full is the microseconds since 2000-01-01, rounded as the column does.
func (m moment) full(mod int32) int64 {
	if m.infinite > 0 {
		return math.MaxInt64
	}
	if m.infinite < 0 {
		return math.MinInt64
	}
	t := m.days*daySeconds*1e6 + m.micros - m.offset*1e6
	if mod < 0 || mod >= 6 {
		return t
	}
	unit := int64(1)
	for range 6 - mod {
		unit *= 10
	}
	if t >= 0 {
		return (t + unit/2) / unit * unit
	}
	return -((-t + unit/2) / unit * unit)
}

// stampable says that a timestamp can hold it: up to the year 294276.
func (m moment) stampable() bool { return m.days < 106751983 }

func date(dst, text []byte, _ *column) ([]byte, bool) {
	m, ok := parseMoment(text)
	if !ok || m.time {
		return dst, false
	}
	days := int32(m.days)
	if m.infinite > 0 {
		days = math.MaxInt32
	} else if m.infinite < 0 {
		days = math.MinInt32
	}
	return binary.BigEndian.AppendUint32(dst, uint32(days)), true
}

// timestamp has no zone: one that is written is read over.
func timestamp(dst, text []byte, c *column) ([]byte, bool) {
	m, ok := parseMoment(text)
	if !ok || !m.stampable() {
		return dst, false
	}
	m.offset = 0
	return binary.BigEndian.AppendUint64(dst, uint64(m.full(c.mod))), true
}

func timestamptz(dst, text []byte, c *column) ([]byte, bool) {
	m, ok := parseMoment(text)
	if !ok || !m.stampable() || !m.zone && m.infinite == 0 && c.zone == "" {
		return dst, false
	}
	return binary.BigEndian.AppendUint64(dst, uint64(m.full(c.mod))), true
}
