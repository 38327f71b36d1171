package change

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"strconv"
	"time"
)

// journalFormat is the version of the journal's records; every released one
// can be read for ever.
const journalFormat = 1

// The types of records, in the order in which a change goes through them.
const (
	recPlan      = "plan"         // the whole plan with the way back; written twice
	recArmed     = "armed"        // the guard stands by
	recStarted   = "step-started" // written before the step is done
	recDone      = "step-done"    // done and verified
	recApplied   = "applied"      // all done and verified
	recConfirmed = "confirmed"    // written twice
	recReverting = "reverting"
	recReverted  = "reverted"  // all is as before; written twice
	recFailed    = "failed"    // it could not be brought back; see Note
	recRecovered = "recovered" // found by Recover, which goes on from here
	recOverwrote = "overwrote" // somebody else's edit; Found holds it
	recAbandoned = "abandoned" // given up by the user; written twice
)

// Record is one line of a journal.
type Record struct {
	N    int       `json:"n"` // counts from 0; a repeated record has the number of the first
	At   time.Time `json:"at"`
	Type string    `json:"type"`
	Step int       `json:"step,omitempty"` // index among Plan.Steps
	Note string    `json:"note,omitempty"`
	// ConfirmBy is when the guard takes the change back (applied).
	ConfirmBy *time.Time `json:"confirm_by,omitempty"`
	// Of a change that may cut off (applied): the TCP port to which a new
	// connection must be seen, and those that there were.
	Port  uint16   `json:"port,omitempty"`
	Known []string `json:"known,omitempty"`
	// Found is what somebody else had made of the step's object when it was
	// taken back all the same (overwrote).
	Found *State `json:"found,omitempty"`
	// Of the plan record:
	Format  int           `json:"format,omitempty"`
	Plan    *Plan         `json:"plan,omitempty"`
	Confirm time.Duration `json:"confirm,omitempty"` // must be confirmed within
	Hold    bool          `json:"hold,omitempty"`    // lasts only as long as the process that applied it
	Boot    string        `json:"boot,omitempty"`    // the kernel's boot id: tells whether the machine was restarted since
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const (
	lineHead = `{"crc":"`
	lineMid  = `","rec":`
	crcAt    = len(lineHead)
	bodyAt   = crcAt + 8 + len(lineMid)
)

// encode writes a record as one line of JSON that carries the CRC32C of the
// record's own bytes.
func (r Record) encode() ([]byte, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("write journal record %s: %w", r.Type, err)
	}
	line := fmt.Appendf(nil, "%s%08x%s", lineHead, crc32.Checksum(body, castagnoli), lineMid)
	line = append(line, body...)
	return append(line, '}', '\n'), nil
}

// decode reads one line without its line break.
func decode(line []byte) (Record, error) {
	var r Record
	if len(line) <= bodyAt || string(line[:crcAt]) != lineHead || string(line[crcAt+8:bodyAt]) != lineMid || line[len(line)-1] != '}' {
		return r, fmt.Errorf("not a record")
	}
	sum, err := strconv.ParseUint(string(line[crcAt:crcAt+8]), 16, 32)
	body := line[bodyAt : len(line)-1]
	if err != nil || uint32(sum) != crc32.Checksum(body, castagnoli) {
		return r, fmt.Errorf("its checksum does not match")
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return r, fmt.Errorf("written by another Headroom: %w", err)
	}
	return r, nil
}

// decodeAll reads a journal's bytes. What cannot be read costs that record
// only and is told in damage; torn says that the last line has no end.
func decodeAll(data []byte) (out []Record, damage []string, torn bool) {
	for n := 1; len(data) > 0; n++ {
		line, rest, whole := bytes.Cut(data, []byte{'\n'})
		data = rest
		if len(line) == 0 {
			continue
		}
		torn = !whole
		r, err := decode(line)
		if err == nil {
			out = append(out, r)
			continue
		}
		if torn {
			continue
		}
		damage = append(damage, fmt.Sprintf("line %d: %v", n, err))
		out = append(out, salvage(line)...)
	}
	return out, damage, torn
}

// salvage finds the records in a line that was made of two because the line
// break between them was lost. Inside of a record's texts the mark that it
// looks for cannot occur, since quotes are escaped there.
func salvage(line []byte) []Record {
	at := bytes.LastIndex(line, []byte(lineHead))
	if at <= 0 {
		return nil
	}
	var out []Record
	for _, part := range [][]byte{line[:at-1], line[at:]} {
		if r, err := decode(part); err == nil {
			out = append(out, r)
		}
	}
	return out
}
