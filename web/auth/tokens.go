package auth

import (
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"headroom/fail"
)

// tokenPrefix lets people and secret scanners see what a found string is.
const tokenPrefix = "hr_"

// maxTokens bounds the file.
const maxTokens = 5_000

// Token is what is kept of a bearer token.
type Token struct {
	ID     string    `json:"id"`
	Name   string    `json:"name"` // unique
	Scopes []Scope   `json:"scopes"`
	Made   time.Time `json:"made"`
	Hash   string    `json:"sha256"`
}

// Tokens is the file of bearer tokens. It is safe for concurrent use.
type Tokens struct{ file file[[]Token] }

// OpenTokens returns the tokens kept at a path; the file is made with the first.
func OpenTokens(path string) *Tokens { return &Tokens{file[[]Token]{path: path}} }

var tokenName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// Create makes a token and returns its secret, which is kept nowhere else.
func (t *Tokens) Create(name string, scopes ...Scope) (secret string, err error) {
	if !tokenName.MatchString(name) {
		return "", fail.With(fmt.Errorf("make token %.70q: want a name of up to 64 letters, digits, . _ -", name), fail.Usage)
	}
	if len(scopes) == 0 {
		return "", fail.With(fail.Hint(fmt.Errorf("make token %s: no scope", name), "scopes are: read, write (bring samples), change (alter this machine)"), fail.Usage)
	}
	for _, s := range scopes {
		if !slices.Contains(Scopes(), s) {
			return "", fail.With(fail.Hint(fmt.Errorf("make token %s: no scope %.40q", name, s), "scopes are: read, write (bring samples), change (alter this machine)"), fail.Usage)
		}
	}
	secret = tokenPrefix + strings.ToLower(rand.Text())
	scopes = slices.Sorted(slices.Values(scopes))
	made := Token{ID: newID(), Name: name, Scopes: slices.Compact(scopes), Made: time.Now().UTC().Truncate(time.Second), Hash: hash(secret)}
	err = t.file.change(func(all []Token) ([]Token, error) {
		if slices.ContainsFunc(all, func(o Token) bool { return o.Name == name }) {
			return nil, fail.Hint(fmt.Errorf("make token %s: there is one of that name", name), "revoke it first, or take another name")
		}
		if len(all) >= maxTokens {
			return nil, fmt.Errorf("make token %s: there are %d already", name, maxTokens)
		}
		return append(slices.Clone(all), made), nil
	})
	if err != nil {
		return "", err
	}
	return secret, nil
}

// List returns all tokens, the oldest first, without what they hash to.
func (t *Tokens) List() ([]Token, error) {
	all, err := t.file.get()
	out := slices.Clone(all)
	for i := range out {
		out[i].Hash = ""
	}
	return out, err
}

// Revoke ends a token; a running server refuses it from the next request on.
// fail.ErrAbsent if there is none of that name.
func (t *Tokens) Revoke(name string) error {
	return t.file.change(func(all []Token) ([]Token, error) {
		left := slices.DeleteFunc(slices.Clone(all), func(o Token) bool { return o.Name == name })
		if len(left) == len(all) {
			return nil, fmt.Errorf("revoke token %.70q: %w", name, fail.ErrAbsent)
		}
		return left, nil
	})
}

// ErrUnknown says that a secret belongs to nobody.
var ErrUnknown = errors.New("not a valid token")

// Check returns who holds a secret. Every token is compared, in constant time.
// The error is ErrUnknown, or that of a file that cannot be read.
func (t *Tokens) Check(secret string) (Who, error) {
	all, err := t.file.get()
	if err != nil {
		return Who{}, err
	}
	h, found := hash(secret), -1
	for i := range all {
		if same(all[i].Hash, h) {
			found = i
		}
	}
	if found < 0 {
		return Who{}, ErrUnknown
	}
	return Who{ID: all[found].ID, Name: all[found].Name, Scopes: all[found].Scopes}, nil
}
