package report

import "fmt"

// reasons groups what could not be told by why, in the order in which the
// reasons came up.
type reasons struct {
	n       int
	entries []entry
}

func (r *reasons) add(why, name string) {
	r.n++
	for i := range r.entries {
		if r.entries[i].Text == why {
			r.entries[i].More += ", " + name
			return
		}
	}
	r.entries = append(r.entries, entry{Text: why, More: name})
}

func (r *reasons) list() list {
	return list{Title: fmt.Sprintf("Could not tell (%d)", r.n), Entries: r.entries}
}
