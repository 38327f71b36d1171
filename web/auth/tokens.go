package auth

import (
	"cmp"
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
	// Series is how many series never seen before it may bring in an hour; 0:
	// DefaultSeries.
	Series int `json:"series,omitempty"`
}

// New series that a token may bring in an hour.
const (
	DefaultSeries = 100_000
	MaxSeries     = 2_000_000 // more than the store takes in all
)

// Budget is how many new series the token may bring in an hour.
func (t Token) Budget() int { return cmp.Or(t.Series, DefaultSeries) }

// Tokens is the file of bearer tokens. It is safe for concurrent use.
type Tokens struct{ file file[[]Token] }

// OpenTokens returns the tokens kept at a path; the file is made with the first.
func OpenTokens(path string) *Tokens { return &Tokens{file[[]Token]{path: path}} }

var tokenName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// Create makes a token with the usual budget; see Make.
func (t *Tokens) Create(name string, scopes ...Scope) (secret string, err error) {
	return t.Make(Token{Name: name, Scopes: scopes})
}

// Make makes a token of the name, scopes and budget that are wanted, and
// returns its secret, which is kept nowhere else.
func (t *Tokens) Make(want Token) (secret string, err error) {
	if err := want.check(); err != nil {
		return "", err
	}
	secret = tokenPrefix + strings.ToLower(rand.Text())
	scopes := slices.Sorted(slices.Values(want.Scopes))
	made := Token{ID: newID(), Name: want.Name, Scopes: slices.Compact(scopes), Made: time.Now().UTC().Truncate(time.Second), Hash: hash(secret), Series: want.Series}
	err = t.file.change(func(all []Token) ([]Token, error) {
		if slices.ContainsFunc(all, func(o Token) bool { return o.Name == made.Name }) {
			return nil, fail.Hint(fmt.Errorf("make token %s: there is one of that name", made.Name), "revoke it first, or take another name")
		}
		if len(all) >= maxTokens {
			return nil, fmt.Errorf("make token %s: there are %d already", made.Name, maxTokens)
		}
		return append(slices.Clone(all), made), nil
	})
	if err != nil {
		return "", err
	}
	return secret, nil
}

func (t Token) check() error {
	if !tokenName.MatchString(t.Name) {
		return fail.With(fmt.Errorf("make token %.70q: want a name of up to 64 letters, digits, . _ -", t.Name), fail.Usage)
	}
	if len(t.Scopes) == 0 {
		return fail.With(fail.Hint(fmt.Errorf("make token %s: no scope", t.Name), "scopes are: read, write (bring samples), change (alter this machine)"), fail.Usage)
	}
	for _, s := range t.Scopes {
		if !slices.Contains(Scopes(), s) {
			return fail.With(fail.Hint(fmt.Errorf("make token %s: no scope %.40q", t.Name, s), "scopes are: read, write (bring samples), change (alter this machine)"), fail.Usage)
		}
	}
	if t.Series != 0 && !slices.Contains(t.Scopes, Write) {
		return fail.With(fail.Hint(fmt.Errorf("make token %s: new series are brought with the scope write only", t.Name), "leave --series out, or add --scope write"), fail.Usage)
	}
	return budgetFault(t.Name, t.Series)
}

func budgetFault(name string, series int) error {
	if series < 0 || series > MaxSeries {
		return fail.With(fmt.Errorf("token %.70s: a budget of %d new series an hour; want 1 to %d", name, series, MaxSeries), fail.Usage)
	}
	return nil
}

// SetSeries gives a token another budget of new series an hour (0: the usual
// one); a running server knows it from the next request on. fail.ErrAbsent if
// there is none of that name.
func (t *Tokens) SetSeries(name string, series int) error {
	if err := budgetFault(name, series); err != nil {
		return err
	}
	return t.file.change(func(all []Token) ([]Token, error) {
		i := slices.IndexFunc(all, func(o Token) bool { return o.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("set the budget of token %.70q: %w", name, fail.ErrAbsent)
		}
		all = slices.Clone(all)
		all[i].Series = series
		return all, nil
	})
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
	one := all[found]
	return Who{ID: one.ID, Name: one.Name, Token: one.ID, Series: one.Budget(), Scopes: one.Scopes}, nil
}
