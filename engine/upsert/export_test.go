package upsert

import "context"

// Forms are the ways a batch can be put into statements.
var Forms = []string{string(conflictForm), string(mergeForm), string(stagingForm), string(stagedMerge), string(singleForm)}

// UseForm fixes the way. It is false if the table does not allow it.
func (w *Writer) UseForm(f string) bool {
	if (form(f) == mergeForm || form(f) == stagedMerge) && w.plan.mergeable() != nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.form = form(f)
	return true
}

// Fate asks what became of a batch that was the n-th of a writer's lane, in a
// transaction of that number.
func (w *Writer) Fate(ctx context.Context, xid, writer string, n int64) (bool, error) {
	return w.side.fate(ctx, xid, fence{writer: writer, batch: n})
}

// HashKey is what deals rows to lanes.
var HashKey = hashKey
