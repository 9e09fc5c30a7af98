// The points of a run's levels, as they come and as they are drawn.

/** Most points that are drawn of a level. */
const POINTS_MAX = 600;

/**
 * Puts a point to the level that is the last, or to a new one; whether it is new.
 * @param {any[]} levels @param {number} step @param {string} label @param {any[]} point
 */
export function add_point(levels, step, label, point) {
  let of = levels[levels.length - 1];
  const last = of?.points[of.points.length - 1];
  // Each cell of a series begins with the first step again, often of the same load.
  const is_new = !of || of.step !== step || of.label !== label || (last && point[0] <= last[0]);
  if (is_new) levels.push((of = { step, label, points: [] }));
  of.points.push(point);
  // Every other one of the older half makes room.
  if (of.points.length > POINTS_MAX)
    of.points = of.points.filter((/** @type {any} */ _, /** @type {number} */ n) => n >= POINTS_MAX / 2 || n % 2 === 0);
  return is_new;
}

/**
 * The points of all levels on one time, with a gap and a line where another begins; windows only, so without what lies between them.
 * @param {any[]} levels
 */
export function whole_run(levels) {
  const every = Math.ceil(levels.reduce((sum, level) => sum + level.points.length, 0) / POINTS_MAX) || 1;
  /** @type {any[][]} */
  const points = [];
  const steps = [];
  let begun = 0;
  for (const level of levels) {
    if (!level.points.length) continue;
    if (points.length) {
      steps.push({ at: begun, text: level.label ?? "" });
      points.push([begun]);
    }
    const kept = level.points.filter(
      (/** @type {any[]} */ _, /** @type {number} */ n) => (level.points.length - 1 - n) % every === 0,
    );
    for (const [at, ...values] of kept) points.push([begun + at, ...values]);
    begun += level.points[level.points.length - 1][0];
  }
  return { points, steps };
}
