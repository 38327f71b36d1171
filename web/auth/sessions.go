package auth

import (
	"crypto/rand"
	"slices"
	"strings"
	"time"
)

// How long things last, and how many are kept: past the limit the oldest goes.
const (
	LinkLife    = 15 * time.Minute
	SessionLife = 30 * 24 * time.Hour
	maxLinks    = 16
	maxSessions = 1_000
)

// Sessions is the file of one-time login codes and of the sessions that came
// of them. It is safe for concurrent use, by several processes as well.
type Sessions struct {
	file file[state]
	now  func() time.Time
}

type state struct {
	Codes    []entry `json:"codes,omitempty"`
	Sessions []entry `json:"sessions,omitempty"`
}

type entry struct {
	ID     string    `json:"id"`
	Name   string    `json:"name,omitempty"`
	Hash   string    `json:"sha256"`
	Scopes []Scope   `json:"scopes"`
	Until  time.Time `json:"until"`
	Token  string    `json:"token,omitempty"` // id of the token that was shown for it
}

// OpenSessions returns what is kept at a path; the file is made when it is
// needed.
func OpenSessions(path string) *Sessions {
	return &Sessions{file: file[state]{path: path}, now: time.Now}
}

func (s *Sessions) live(all []entry) []entry {
	now := s.now()
	return slices.DeleteFunc(slices.Clone(all), func(e entry) bool { return now.After(e.Until) })
}

func add(all []entry, e entry, limit int) []entry {
	all = append(all, e)
	return all[max(0, len(all)-limit):]
}

// NewCode makes a login code: good once, for LinkLife, also after a restart.
func (s *Sessions) NewCode(scopes ...Scope) (code string, err error) {
	code = strings.ToLower(rand.Text())
	made := entry{ID: newID(), Name: "login link", Hash: hash(code), Scopes: scopes, Until: s.now().Add(LinkLife).UTC()}
	err = s.file.change(func(st state) (state, error) {
		st.Codes = add(s.live(st.Codes), made, maxLinks)
		return st, nil
	})
	return code, err
}

// Redeem turns a login code into a session and returns its secret. The code is
// used up on disk before the session counts. ErrUnknown if it is wrong, used
// or too old.
func (s *Sessions) Redeem(code string) (secret string, err error) {
	st, err := s.file.get() // a guess must not cost a write
	if err != nil {
		return "", err
	}
	h := hash(code)
	match := func(e entry) bool { return same(e.Hash, h) }
	if !slices.ContainsFunc(s.live(st.Codes), match) {
		return "", ErrUnknown
	}
	secret = strings.ToLower(rand.Text())
	err = s.file.change(func(st state) (state, error) {
		st.Codes = s.live(st.Codes)
		i := slices.IndexFunc(st.Codes, match)
		if i < 0 {
			return st, ErrUnknown // somebody else was faster
		}
		made := entry{ID: newID(), Name: "login link", Hash: hash(secret), Scopes: st.Codes[i].Scopes, Until: s.now().Add(SessionLife).UTC()}
		st.Codes = slices.Delete(st.Codes, i, i+1)
		st.Sessions = add(s.live(st.Sessions), made, maxSessions)
		return st, nil
	})
	if err != nil {
		return "", err
	}
	return secret, nil
}

// Begin opens a session for the holder of a token, with the same rights. It
// ends with the token.
func (s *Sessions) Begin(w Who) (secret string, err error) {
	secret = strings.ToLower(rand.Text())
	made := entry{ID: newID(), Name: w.Name, Hash: hash(secret), Scopes: w.Scopes, Until: s.now().Add(SessionLife).UTC(), Token: w.ID}
	err = s.file.change(func(st state) (state, error) {
		st.Sessions = add(s.live(st.Sessions), made, maxSessions)
		return st, nil
	})
	if err != nil {
		return "", err
	}
	return secret, nil
}

// Check returns whose session a secret opens. tokens, if given, must still
// hold the token that the session began with. The error is ErrUnknown, or that
// of a file that cannot be read.
func (s *Sessions) Check(secret string, tokens *Tokens) (Who, error) {
	st, err := s.file.get()
	if err != nil {
		return Who{}, err
	}
	h, now, found := hash(secret), s.now(), -1
	for i := range st.Sessions {
		if same(st.Sessions[i].Hash, h) && !now.After(st.Sessions[i].Until) {
			found = i
		}
	}
	if found < 0 {
		return Who{}, ErrUnknown
	}
	e := st.Sessions[found]
	who := Who{ID: e.ID, Name: e.Name, Session: true, Scopes: e.Scopes}
	if e.Token != "" {
		if tokens == nil {
			return Who{}, ErrUnknown
		}
		all, err := tokens.file.get()
		if err != nil {
			return Who{}, err
		}
		i := slices.IndexFunc(all, func(t Token) bool { return t.ID == e.Token })
		if i < 0 {
			return Who{}, ErrUnknown
		}
		who.Token, who.Series = e.Token, all[i].Budget()
	}
	return who, nil
}

// End closes a session. One that is not there is no error.
func (s *Sessions) End(secret string) error {
	h := hash(secret)
	return s.file.change(func(st state) (state, error) {
		st.Sessions = slices.DeleteFunc(s.live(st.Sessions), func(e entry) bool { return same(e.Hash, h) })
		return st, nil
	})
}
