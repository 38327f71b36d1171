package queue

import (
	"fmt"
	"sync"
	"time"
)

// notesKept is how many notes Status tells of.
const notesKept = 20

// Notes are the last things that a queue had to tell, for Status. The zero
// value is ready; it is safe for concurrent use.
type Notes struct {
	mu   sync.Mutex
	list []string
}

// Add tells a person, and keeps what was told with the time.
func (n *Notes) Add(tell func(string), form string, args ...any) {
	text := fmt.Sprintf(form, args...)
	n.mu.Lock()
	if n.list = append(n.list, time.Now().UTC().Format(time.RFC3339)+" "+text); len(n.list) > notesKept {
		n.list = n.list[1:]
	}
	n.mu.Unlock()
	tell(text)
}

// List returns the notes, the oldest first.
func (n *Notes) List() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.list...)
}
