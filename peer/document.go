// Package peer is what an agent tells another machine's `up` besides samples:
// what it watches, what it cannot read, what its checks found and, while
// somebody looks, what runs on its servers. It holds the form of these
// documents and the book in which `up` keeps the newest of each host.
//
// What comes from another machine is not trusted: Decode refuses by field
// name what is too large, too many, not known, or no plain text.
package peer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"headroom/agent"
	"headroom/check"
	"headroom/fail"
	"headroom/metric"
	"headroom/topic/postgres"
)

// Version is the form of documents that this program writes, and the only one
// that it reads. Any new field makes a new version.
const Version = 1

// MaxBytes is the largest document.
const MaxBytes = 2 << 20

// Kind is what a document is about.
type Kind string

// The kinds. A newer document of a kind takes the place of the one before;
// sessions are kept by server.
const (
	Targets  Kind = "targets"
	Gaps     Kind = "gaps"
	Findings Kind = "findings"
	Sessions Kind = "sessions"
)

// Inspection is what all checks said of one machine or server at one time.
type Inspection struct {
	Host    string        `json:"host"`
	Server  string        `json:"server,omitempty"` // "" for the machine itself
	At      time.Time     `json:"at"`
	Seconds float64       `json:"seconds"` // it took
	Outcome check.Outcome `json:"outcome"`
}

// Document is one thing that a host tells of itself, whole: what is not in it
// is not so any more. Only the fields of its kind are set.
type Document struct {
	Version     int                `json:"version"`
	Kind        Kind               `json:"kind"`
	Host        string             `json:"host"`
	Program     string             `json:"program,omitempty"` // version of the Headroom that tells
	At          time.Time          `json:"at"`                // by the teller's clock
	Targets     []agent.Target     `json:"targets,omitempty"`
	Gaps        []metric.Gap       `json:"gaps,omitempty"`
	Inspections []Inspection       `json:"inspections,omitempty"`
	Server      string             `json:"server,omitempty"` // that the sessions are of
	Sessions    []postgres.Session `json:"sessions,omitempty"`
	Why         string             `json:"why,omitempty"` // why the sessions could not be read
}

// ErrVersion says that a document is of a form that this program does not know.
var ErrVersion = errors.New("not a version that is known here")

// Decode reads a document and refuses, by the name of the field, what is not
// as it has to be. The error is ErrVersion where another Headroom speaks.
func Decode(body []byte) (*Document, error) {
	if len(body) > MaxBytes {
		return nil, fmt.Errorf("read document: it has %d bytes, at most %d are taken", len(body), MaxBytes)
	}
	return decode(body)
}

func decode(body []byte) (*Document, error) {
	var head struct{ Version int }
	if err := json.Unmarshal(body, &head); err != nil {
		return nil, fmt.Errorf("read document: %w", err)
	}
	if head.Version != Version {
		return nil, fail.Hint(fmt.Errorf("read document: version %d: %w", head.Version, ErrVersion), "this program reads version %d: run the same Headroom on both machines", Version)
	}
	d := &Document{}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(d); err != nil {
		return nil, fmt.Errorf("read document: %w", err)
	}
	if err := d.check(); err != nil {
		return nil, fmt.Errorf("read document: %w", err)
	}
	return d, nil
}

// Encode makes the bytes of a document that Decode takes: text is mended where
// it has to be, and lists that are too long end with how many are left out.
func Encode(d Document) ([]byte, error) {
	d.Version = Version
	body, err := d.mended()
	for (err != nil || len(body) > MaxBytes) && d.shorten() {
		body, err = d.mended()
	}
	if err == nil && len(body) > MaxBytes {
		err = fmt.Errorf("%d bytes", len(body))
	}
	if err != nil {
		return nil, fmt.Errorf("write document %s: %w", d.Kind, err)
	}
	return body, nil
}

// mended encodes a copy with plain text.
func (d *Document) mended() ([]byte, error) {
	body, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	var plain Document
	if err := json.Unmarshal(body, &plain); err != nil {
		return nil, err
	}
	if err := plain.mend(); err != nil {
		return nil, err
	}
	return json.Marshal(&plain)
}

// shorten leaves out half of what a document lists; false if there is nothing
// to leave out. The lists of the caller stay as they are.
func (d *Document) shorten() bool {
	switch {
	case len(d.Sessions) > 1:
		d.Sessions = d.Sessions[:len(d.Sessions)/2]
	case len(d.Gaps) > 1:
		keep := len(d.Gaps) / 2
		left := metric.Gap{Collector: "headroom", Because: fmt.Sprintf("at least %d more gaps are not told: the list is too long to send", len(d.Gaps)-keep)}
		d.Gaps = append(d.Gaps[:keep-1:keep-1], left)
	case len(d.Inspections) > 1:
		keep := len(d.Inspections) / 2
		last := d.Inspections[keep-1]
		last.Outcome.NotChecked = append(last.Outcome.NotChecked[:len(last.Outcome.NotChecked):len(last.Outcome.NotChecked)],
			check.Unchecked{Check: "headroom", Because: fmt.Sprintf("the findings of %d more servers are not told: the list is too long to send", len(d.Inspections)-keep)})
		d.Inspections = append(d.Inspections[:keep-1:keep-1], last)
	case len(d.Targets) > 1:
		d.Targets = d.Targets[:len(d.Targets)/2]
	default:
		return false
	}
	return true
}
