package queue

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// segment is one file of a log. Its name carries its first sequence and salt,
// and with the ending the version of its form.
type segment struct {
	name   string
	first  uint64 // lowest sequence in it
	salt   uint64
	end    int64 // bytes that readers may see: what is durable, or the file's size
	sealed bool  // nothing is added any more
}

const segmentForm = "%020d-%016x.hq1"

func segmentName(first, salt uint64) string { return fmt.Sprintf(segmentForm, first, salt) }

// parseSegmentName returns nil for files that are not segments, and an error
// for those of a version to come.
func parseSegmentName(name string) (*segment, error) {
	s := &segment{name: name, sealed: true}
	if n, _ := fmt.Sscanf(name, segmentForm, &s.first, &s.salt); n == 2 && name == segmentName(s.first, s.salt) {
		return s, nil
	}
	var version int
	if n, _ := fmt.Sscanf(name, "%020d-%016x.hq%d", &s.first, &s.salt, &version); n == 3 && version > 1 {
		return nil, fmt.Errorf("file %s was written by a newer version", name)
	}
	return nil, nil
}

// listSegments returns the segments of a folder by rising sequence, with their
// sizes.
func listSegments(d disk) ([]*segment, error) {
	names, err := d.Names()
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var out []*segment
	for _, name := range names {
		s, err := parseSegmentName(name)
		if err != nil {
			return nil, err
		}
		if s == nil {
			continue
		}
		f, err := d.Open(name)
		if err != nil {
			return nil, err
		}
		s.end, err = f.Size()
		_ = f.Close()
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// What can be wrong at a place.
const (
	noHead   = "no intact head of a message"
	cutShort = "the file ends within a message"
	badSum   = "checksum of a message differs"
)

// piece is what a scan finds at one place of a segment: a message, or damage.
type piece struct {
	off, size int64
	head      header // of a message, and of damage whose head is intact
	data      []byte // the message; nil for damage
	damage    string // why it is not a message, "" if it is one
}

// scan returns what is at off; ok is false at the segment's end. It never
// changes the file. An error is one of reading.
func (s *segment) scan(f io.ReaderAt, off int64) (p piece, ok bool, err error) {
	if off >= s.end {
		return piece{}, false, nil
	}
	head, err := readHead(f, off, s.end)
	if err != nil {
		return piece{}, false, err
	}
	h, intact := parseHead(head, s.salt)
	if !intact {
		next, err := s.search(f, off+1)
		return piece{off: off, size: next - off, damage: noHead}, err == nil, err
	}
	p = piece{off: off, size: frameHead + int64(h.size), head: h}
	if off+p.size > s.end {
		p.size, p.damage = s.end-off, cutShort
		return p, true, nil
	}
	data := make([]byte, h.size)
	if err := readFull(f, data, off+frameHead); err != nil {
		return piece{}, false, err
	}
	if sumOf(data) != h.sum {
		p.damage = badSum
		return p, true, nil
	}
	p.data = data
	return p, true, nil
}

// search returns where the next intact head is, the segment's end if nowhere.
func (s *segment) search(f io.ReaderAt, from int64) (int64, error) {
	const chunk = 1 << 20
	buf := make([]byte, chunk+frameHead)
	for ; from < s.end; from += chunk {
		b := buf[:min(int64(len(buf)), s.end-from)]
		if err := readFull(f, b, from); err != nil {
			return 0, err
		}
		for at, text := 0, string(b); ; at++ {
			i := strings.Index(text[at:], frameMagic)
			if i < 0 {
				break
			}
			at += i
			if _, ok := parseHead(b[at:], s.salt); ok {
				return from + int64(at), nil
			}
		}
	}
	return s.end, nil
}

// readHead reads up to a head's length, less at the end.
func readHead(f io.ReaderAt, off, end int64) ([]byte, error) {
	head := make([]byte, min(frameHead, end-off))
	return head, readFull(f, head, off)
}

// readFull reads all of b. What the file should hold and no longer does reads
// as zeros: it is damage, not the end.
func readFull(f io.ReaderAt, b []byte, off int64) error {
	n, err := f.ReadAt(b, off)
	if n < len(b) && err == io.EOF {
		clear(b[n:])
		return nil
	}
	if n == len(b) {
		return nil
	}
	return err
}
