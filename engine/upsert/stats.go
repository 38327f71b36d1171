package upsert

// Stats is what a writer has done so far.
type Stats struct {
	Rows     int64 // taken by Add
	Written  int64 // sent to the server: rows with the same key in a batch are one
	Known    int64 // passed over by Add: an earlier writer of the source brought them in
	Rejected int64
	Batches  int64
	Retries  int64 // of batches

	P50, P99    float64 // seconds to get a batch in; 0 before the first
	Blocked     float64 // seconds in which an Add waited for room
	Batch       int     // rows, now
	Connections int     // now
	Strategy    Strategy
	// WALBytes is what the whole server wrote to its log since Open, up to a
	// second ago; -1 if it does not say.
	WALBytes int64
}

// Stats looks at the counters.
func (w *Writer) Stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := &w.stats
	return Stats{Rows: c.rows, Known: c.known, Written: c.written, Rejected: c.rejected, Batches: c.batches, Retries: c.retries,
		P50: float64(c.latency.ValueAtQuantile(50)) / 1e9, P99: float64(c.latency.ValueAtQuantile(99)) / 1e9,
		Blocked: w.blocked.Seconds(), Batch: w.batch, Connections: w.width, Strategy: w.form.strategy(), WALBytes: w.side.wal.Load()}
}

func (w *Writer) retried() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stats.retries++
}

// firstForm is the form that the asked strategy begins with.
func (w *Writer) firstForm() form {
	switch w.opt.Strategy {
	case Auto:
		if w.plan.mergeable() == nil {
			return mergeForm
		}
	case Staging:
		return stagingForm
	case UnnestMerge, StagingMerge:
		f := mergeForm
		if w.opt.Strategy == StagingMerge {
			f = stagedMerge
		}
		if err := w.plan.mergeable(); err != nil {
			w.opt.say("strategy %s: not by MERGE: %v", w.opt.Strategy, err)
			return plainForm[f]
		}
		return f
	case Pipeline:
		return singleForm
	}
	return conflictForm
}

// formFor is the form for some rows. No table is staged for a few.
func (w *Writer) formFor(rows []outRow) form {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.form
	if (f == stagingForm || f == stagedMerge) && w.opt.Strategy == Auto && len(rows) < 100 {
		return conflictForm
	}
	return f
}
