package auth

import (
	"encoding/json"
	"fmt"
	"time"

	"headroom/host"
)

// Used is how much of its budget of new series a token has used up. What is
// used is earned back evenly, all of it within an hour.
type Used struct {
	New    float64   `json:"new"` // as of At
	At     time.Time `json:"at"`
	Active int       `json:"active"` // series that came with the token within a day or two
}

// Take uses up one new series of perHour, or returns after how long the next
// one is earned.
func (u *Used) Take(now time.Time, perHour int) (wait time.Duration) {
	b, wait := bucket{u.New, u.At}.take(now, float64(perHour), time.Hour/time.Duration(perHour))
	u.New, u.At = b.used, b.at
	return wait
}

// Left is how many new series may still come now.
func (u Used) Left(now time.Time, perHour int) int {
	earned := max(0, now.Sub(u.At).Hours()) * float64(perHour)
	return perHour - int(min(float64(perHour), max(0, u.New-earned)))
}

// Usage is the file of what tokens have used up, by their IDs: a running
// server writes it now and then, so that a restart gives nobody a new budget.
type Usage struct{ file file[map[string]Used] }

// OpenUsage returns what is kept at a path.
func OpenUsage(path string) *Usage { return &Usage{file[map[string]Used]{path: path}} }

// Get returns what was kept last, to be read only; nothing where there is no
// file yet.
func (u *Usage) Get() (map[string]Used, error) { return u.file.get() }

// Set keeps what is used now. It is on disk when Set returns; a damaged file
// is replaced.
func (u *Usage) Set(now map[string]Used) error {
	text, err := json.Marshal(now)
	if err != nil {
		return fmt.Errorf("write %s: %w", u.file.path, err)
	}
	return host.WriteDurableFor(u.file.path, append(text, '\n'), 0o600)
}
