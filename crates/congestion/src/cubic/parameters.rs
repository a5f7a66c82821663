//! CUBIC's options.

use paceline_units::Gain;

use crate::window::window_parameters;

window_parameters! {
    Gain::from_millionths(700_000), " (RFC 9438 4.6)";
    " (RFC 9438 4.1.2: arbitrarily high)";
    hystart = true;
    /// C: how steep the cubic function is, in segments per cubic second (RFC 9438 5.1)
    c: Gain(1, 100_000) = Gain::from_millionths(400_000);
    /// Reduce further if the last loss came below W_max: fast convergence (RFC 9438 4.7)
    fast_convergence: Flag = true;
}
