// Package auth says who may do what: bearer tokens for programs, one-time
// links and sessions for people. Secrets are random, 128 bits or more; only
// their SHA-256 is kept, in files that their owner alone can read.
//
// The files may be changed by several processes at once (a verb that makes a
// token while the server runs): each change is made under a lock, on disk
// before it counts, and seen by the others at their next question.
package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"slices"
)

// Scope is one thing that somebody may do.
type Scope string

// The scopes. None holds another.
const (
	Read   Scope = "read"   // look at everything that is shown
	Write  Scope = "write"  // bring samples
	Change Scope = "change" // alter this machine, where the server allows that at all
)

// Scopes lists all there are.
func Scopes() []Scope { return []Scope{Read, Write, Change} }

// Who is the holder of a token or session.
type Who struct {
	ID      string // of the token or session; no secret
	Name    string
	Session bool   // a person with a browser
	Token   string // ID of the token, also of one that a session began with; "": a login link
	Series  int    // new series that the token may bring in an hour
	Scopes  []Scope
}

// May says whether something is allowed; nobody (the zero Who) may nothing.
func (w Who) May(s Scope) bool { return slices.Contains(w.Scopes, s) }

type whoKey struct{}

// With returns a context that carries who asks.
func With(ctx context.Context, w Who) context.Context { return context.WithValue(ctx, whoKey{}, w) }

// From returns who asks; the zero Who is nobody.
func From(ctx context.Context) Who {
	w, _ := ctx.Value(whoKey{}).(Who)
	return w
}

// hash is what is kept of a secret.
func hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// newID names a thing without telling its secret.
func newID() string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // crypto/rand.Read never fails
	return hex.EncodeToString(b[:])
}
