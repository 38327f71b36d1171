package pgscript

// Tune sets the seed, rate and throttle of the Runs that follow, as in
// loop.Options, and begins the random numbers of all clients anew, so that
// rounds with the same seed do the same work.
func (d *Driver) Tune(seed uint64, rate, throttle float64) {
	d.opt.Seed, d.opt.Rate, d.opt.Throttle = seed, rate, throttle
	for _, c := range d.clients {
		c.pcg.Seed(seed, uint64(c.id)*0x9e3779b97f4a7c15+1)
	}
}
