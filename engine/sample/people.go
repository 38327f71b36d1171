package sample

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
)

// PeopleGen makes the rows of the people table. It holds no state: its methods
// may be called by several goroutines.
type PeopleGen struct {
	seed uint64
	bad  float64
}

// People makes rows from a seed; all of them are valid.
func People(seed uint64) *PeopleGen { return &PeopleGen{seed: seed} }

// WithBad is the same people with a share (0 to 1) of the rows replaced by
// rows that PostgreSQL refuses; IsBad tells which.
func (g *PeopleGen) WithBad(share float64) *PeopleGen {
	return &PeopleGen{seed: g.seed, bad: share}
}

// PeopleColumns are the columns of the table, in the order of the rows.
var PeopleColumns = []string{"id", "client_id", "first_name", "middle_name", "last_name", "born", "balance", "created"}

// PeopleDDL is the statement that makes the table with its primary key and no
// other index. The table's name is SQL, quoted where it must be. About 106
// bytes a row as text: 600,000 rows are 63 MB.
func PeopleDDL(table string) string {
	return fmt.Sprintf(`create table %s (
	id varchar(36) primary key,
	client_id integer not null,
	first_name varchar(60) not null,
	middle_name varchar(60),
	last_name varchar(60) not null,
	born date not null,
	balance numeric(10,2) not null,
	created timestamptz not null
)`, table)
}

// PeopleIndexes are the statements that make the other indexes: a btree on
// client_id and a GIN full text expression over the three names. They get
// PostgreSQL's own names: people_client_id_idx, people_to_tsvector_idx.
func PeopleIndexes(table string) []string {
	return []string{
		fmt.Sprintf("create index on %s (client_id)", table),
		fmt.Sprintf("create index on %s using gin (to_tsvector('simple', first_name || ' ' || coalesce(middle_name, '') || ' ' || last_name))", table),
	}
}

// Person is one row.
type Person struct {
	ID      [36]byte // a version 4 UUID; no two rows of a seed share one
	Client  int64    // 1 to 20,000
	First   string
	Middle  string // "" is NULL: three in five have none
	Last    string
	Born    int64 // days since 1970-01-01
	Balance int64 // hundredths
	Created int64 // seconds since 1970-01-01
}

const (
	clients    = 20_000
	bornFrom   = -14_610 // 1930-01-01
	bornDays   = 28_854  // to 2008-12-31
	createFrom = 1_262_304_000
	createSecs = 473_385_600 // 2010 to 2024
)

// At makes row i, from 0.
func (g *PeopleGen) At(i int64) Person {
	s := row(g.seed, i)
	var p Person
	putUUID(&p.ID, uint64(s), s.next())
	a, b := s.next(), s.next()
	p.Client = 1 + int64(a>>32*clients>>32)
	p.First = popular(firstNames, uint32(a))
	p.Last = lastName(uint32(b))
	if c := uint32(b >> 32); c%5 < 2 {
		p.Middle = popular(firstNames, c*0x9e3779b1)
	}
	p.Born = bornFrom + int64(s.below(bornDays))
	p.Balance = int64(s.below(2_000_000)) - 300_000
	p.Created = createFrom + int64(s.below(createSecs))
	return p
}

// popular picks from a list whose first entries are more common, by a random
// number: the square of an even draw.
func popular(list []string, r uint32) string {
	x := uint64(r) * uint64(r) >> 32
	return list[x*uint64(len(list))>>32]
}

// lastName is one of some 9,000: from a list, or put together of two parts.
func lastName(r uint32) string {
	if r%4 == 0 {
		return popular(lastNames, r*0x85ebca6b)
	}
	return joined[uint64(r*0xc2b2ae35)*uint64(len(joined))>>32]
}

var joined = func() []string {
	out := make([]string, 0, len(lastHeads)*len(lastTails))
	for _, h := range lastHeads {
		for _, t := range lastTails {
			out = append(out, h+t)
		}
	}
	return out
}()

// putUUID writes a version 4 UUID that holds all 64 bits of the row's state,
// which is what keeps rows apart; rnd fills the rest.
func putUUID(id *[36]byte, state, rnd uint64) {
	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:8], state&^0xf000|0x4000)
	binary.BigEndian.PutUint64(raw[8:], rnd>>2&^0xf|1<<63|state>>12&0xf)
	hex.Encode(id[:8], raw[:4])
	hex.Encode(id[9:13], raw[4:6])
	hex.Encode(id[14:18], raw[6:8])
	hex.Encode(id[19:23], raw[8:10])
	hex.Encode(id[24:], raw[10:])
	id[8], id[13], id[18], id[23] = '-', '-', '-', '-'
}

// AppendTSV appends row i as a line of PostgreSQL's COPY text format, with \N
// for NULL.
func (g *PeopleGen) AppendTSV(b []byte, i int64) []byte {
	if g.IsBad(i) {
		return g.appendBad(b, i, tsv)
	}
	p := g.At(i)
	b = append(b, p.ID[:]...)
	b = append(b, '\t')
	b = strconv.AppendInt(b, p.Client, 10)
	b = append(b, '\t')
	b = append(b, p.First...)
	b = append(b, '\t')
	if p.Middle == "" {
		b = append(b, `\N`...)
	}
	b = append(b, p.Middle...)
	b = append(b, '\t')
	b = append(b, p.Last...)
	b = append(b, '\t')
	b = appendDate(b, p.Born)
	b = append(b, '\t')
	b = appendMoney(b, p.Balance)
	b = append(b, '\t')
	b = appendTime(b, p.Created)
	return append(b, '\n')
}

// AppendCSV appends row i as a line of CSV, quoted where it must be, with an
// empty field for NULL.
func (g *PeopleGen) AppendCSV(b []byte, i int64) []byte {
	if g.IsBad(i) {
		return g.appendBad(b, i, csv)
	}
	p := g.At(i)
	b = append(b, p.ID[:]...)
	b = append(b, ',')
	b = strconv.AppendInt(b, p.Client, 10)
	b = append(b, ',')
	b = appendQuoted(b, p.First)
	b = append(b, ',')
	b = appendQuoted(b, p.Middle)
	b = append(b, ',')
	b = appendQuoted(b, p.Last)
	b = append(b, ',')
	b = appendDate(b, p.Born)
	b = append(b, ',')
	b = appendMoney(b, p.Balance)
	b = append(b, ',')
	b = appendTime(b, p.Created)
	return append(b, '\n')
}

// AppendJSON appends row i as a JSON object on a line of its own; the field of
// a NULL is null.
func (g *PeopleGen) AppendJSON(b []byte, i int64) []byte {
	if g.IsBad(i) {
		return g.appendBad(b, i, ndjson)
	}
	p := g.At(i)
	b = append(b, `{"id":"`...)
	b = append(b, p.ID[:]...)
	b = append(b, `","client_id":`...)
	b = strconv.AppendInt(b, p.Client, 10)
	b = append(b, `,"first_name":"`...)
	b = append(b, p.First...)
	if p.Middle == "" {
		b = append(b, `","middle_name":null,"last_name":"`...)
	} else {
		b = append(b, `","middle_name":"`...)
		b = append(b, p.Middle...)
		b = append(b, `","last_name":"`...)
	}
	b = append(b, p.Last...)
	b = append(b, `","born":"`...)
	b = appendDate(b, p.Born)
	b = append(b, `","balance":`...)
	b = appendMoney(b, p.Balance)
	b = append(b, `,"created":"`...)
	b = appendTime(b, p.Created)
	return append(b, '"', '}', '\n')
}
