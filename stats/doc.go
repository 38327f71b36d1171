// Package stats says whether a change made a difference, and how sure that is.
// It is pure: figures in, answers out; the only chance comes from the
// generator handed to Order.
//
// # What a trial gives
//
// A workload runs with and without a change in blocks, in an order drawn by
// Order. Each block gives one figure per arm, a Pair. Pairs are compared by the
// logarithm of their ratio, so twice as much and half as much weigh the same.
// The centre is the mean without the highest and lowest tenth, with Yuen's t
// interval; below 10 pairs nothing is cut and it is Student's t. Chosen by
// simulation: with 5 % of wild rounds and 27 pairs it finds 93 % where plain t
// finds 74 %; under normal noise it costs about 5 % more pairs, and some 10 %
// just above 10 pairs; cutting a fifth gained little and lost much below 20; signed ranks cannot decide
// before about 9 pairs.
//
// When both arms are alike and their order is random, a difference is as
// likely as its opposite whatever the noise, and t intervals err no more often
// than they say. That is why drift, modes and heavy tails of the machine do
// no harm here.
//
// # The sequential method
//
// A Plan fixes the largest number of pairs and the looks before the run. Look
// k uses the interval that errs with α(k) only: after n of Max pairs the looks
// have spent (n/Max)² of α together (Kim and DeMets' power family), and the
// error of the whole run is at most the sum (the union bound). The intervals
// are repeated confidence intervals (Jennison and Turnbull): together they
// hold the true ratio with the stated confidence at all looks, so it does not
// matter when or why the run stops, and a second measure read at the same look
// is right too. Several arms share α evenly (Bonferroni); Holm would find
// slightly more but leave no intervals.
//
// Boundaries by numerical integration (Lan and DeMets) would save some 6 % of
// the pairs. They hold for normal noise in the limit of many pairs; the sum
// holds for any dependence between looks, at six pairs as well.
//
// A run stops as Faster or Slower when the interval is clear of Margin, and as
// NoDifference when it lies within Matter. At the end of the plan it may still
// be NeedsMore: too wide to say either.
//
// # Measured
//
// By go test -run Calibration -v ./stats -calibration.trials 20000:
//
//   - False verdicts without a margin, at 8, 15 and 27 pairs: 2.6 to 3.8 % under
//     normal, heavy-tailed, skewed, two-mode, wild and drifting noise, up to
//     4.4 % on an autocorrelated machine; with the margin of 1 % at a noise of
//     3 % per round, under 1.5 %. Five arms in a sweep: 3.9 % for all together.
//   - PairsFor at 95 %: 95.6 to 100 % found. With the noise measured from 6 or
//     10 pairs first, a tenth more is found in 99.4 % or more under normal noise
//     and in about 95 % or more under all the noise above.
//   - The promise does not hold when noise stays with an arm from block to
//     block, as when each arm keeps a server of its own whose speed wanders: at
//     an autocorrelation of 0.3 12 % and of 0.6 up to 31 % false verdicts without
//     margin (3 and 14 % with it, at 15 pairs). Dependent warns and the interval is widened, but at 6 to 10 pairs
//     nobody can see it. The cure is in the trial: let arms change servers, or
//     set the server up anew for each block.
//
// # What it refuses
//
//   - A verdict on fewer than MinPairs pairs, or from unpaired runs without the
//     warning that the machine's own drift is in the difference.
//   - A difference within Margin, however sure.
//   - Dropping pairs by hand: outliers are named, and cutting is by rank alone.
//   - Going on after the plan is used up: NeedsMore then names the size of a
//     new plan, whose pairs start from none.
//   - Verdicts on a measure that was not named before the run.
//   - Figures of zero or below, infinite or NaN: there is no ratio.
//
// The centre describes the usual block. A stall that strikes fewer than one
// block in ten may be cut away; it shows as Outliers, and belongs to a measure
// of the tail.
package stats
