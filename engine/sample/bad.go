package sample

import (
	"bytes"
	"strconv"
)

// form is how a row is written.
type form int

const (
	tsv form = iota
	csv
	ndjson
)

// badKinds is the number of ways in which a row can be bad.
const badKinds = 7

// badSalt keeps the draw of what is bad apart from the rows' own content.
const badSalt = 0x62_6164

// IsBad says whether row i is one of those that PostgreSQL refuses.
func (g *PeopleGen) IsBad(i int64) bool {
	if g.bad <= 0 {
		return false
	}
	s := row(g.seed^badSalt, i)
	return float64(s.next()>>11)/(1<<53) < g.bad
}

// BadReason says in a few words what is wrong with row i; "" for a good row.
func (g *PeopleGen) BadReason(i int64) string {
	if !g.IsBad(i) {
		return ""
	}
	return [badKinds]string{"client_id is not a number", "born is no date", "the last columns are missing", "there is a column too many",
		"client_id is missing", "balance is out of range", "last_name is not UTF-8"}[badKind(g.seed, i)]
}

func badKind(seed uint64, i int64) uint64 {
	s := row(seed^badSalt, i)
	s.next()
	return s.below(badKinds)
}

// appendBad appends row i with one thing wrong. In JSON a column too many is
// a second value on the line, and missing columns are an object cut off.
func (g *PeopleGen) appendBad(b []byte, i int64, f form) []byte {
	kind := badKind(g.seed, i)
	good := &PeopleGen{seed: g.seed}
	p := g.At(i)
	if f == ndjson {
		line := bytes.TrimSuffix(good.AppendJSON(nil, i), []byte("\n"))
		client := append([]byte(`"client_id":`), strconv.FormatInt(p.Client, 10)...)
		switch kind {
		case 0:
			line = bytes.Replace(line, client, []byte(`"client_id":"12a4"`), 1)
		case 1:
			line = bytes.Replace(line, appendDate([]byte(`"born":"`), p.Born), []byte(`"born":"2001-02-30`), 1)
		case 2:
			line = line[:bytes.Index(line, []byte(`"last_name"`))]
		case 3:
			line = append(line, ` "surplus"`...)
		case 4:
			line = bytes.Replace(line, client, []byte(`"client_id":null`), 1)
		case 5:
			line = bytes.Replace(line, appendMoney([]byte(`"balance":`), p.Balance), []byte(`"balance":123456789012.00`), 1)
		case 6:
			line = bytes.Replace(line, []byte(`"last_name":"`), []byte("\"last_name\":\"\xff"), 1)
		}
		return append(append(b, line...), '\n')
	}
	sep, null := "\t", `\N`
	line := good.AppendTSV(nil, i)
	if f == csv {
		sep, null = ",", ""
		p.Last = string(appendQuoted(nil, p.Last))
	}
	fields := bytes.Split(bytes.TrimSuffix(line, []byte("\n")), []byte("\t"))
	if f == csv {
		if p.Middle == "" {
			fields[3] = nil
		}
		fields[4] = []byte(p.Last)
	}
	switch kind {
	case 0:
		fields[1] = []byte("12a4")
	case 1:
		fields[5] = []byte("2001-02-30")
	case 2:
		fields = fields[:5]
	case 3:
		fields = append(fields, []byte("surplus"))
	case 4:
		fields[1] = []byte(null)
	case 5:
		fields[6] = []byte("123456789012.00")
	case 6:
		fields[4] = []byte("\xff")
	}
	return append(append(b, bytes.Join(fields, []byte(sep))...), '\n')
}
