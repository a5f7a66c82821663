//! The displayed state of controllers: each field is declared in one line.

/// Declares the fields of a state, in order, and shows them: `visit_fields` names each with its
/// quantity, before there is a value; the function of the given name visits their values.
///
/// ```ignore
/// state! {
///     fn visit_state(&self) -> Value {
///         window: of(Window) = |visit| self.window.visit_state(visit),
///         alpha: Gain = self.alpha,
///     }
/// }
/// ```
///
/// A field is its name, the variant of the value (of [`Value`](paceline_units::Value), or of
/// Linux's `Field`) and an expression. `of(PART)` means all fields of a part, which has its own
/// `state!`. `if CONST` before `=` leaves a field out of some instances of a generic state.
macro_rules! state {
    ($(#[doc = $doc:literal])* $vis:vis fn $visit:ident(&$self:ident $(, $sk:ident: &$socket:ty)?) -> $value:ident {
        $($name:ident: $kind:ident $(($part:ty))? $(if $when:path)? = $shown:expr,)*
    }) => {
        /// Names the fields of the state, each with its quantity.
        $vis fn visit_fields(visit: &mut dyn FnMut(paceline_units::Field)) {
            $($(if $when)? {
                $crate::state::state!(@name visit, $value, $name, $kind $(, $part)?);
            })*
        }

        /// Shows the values of these fields, in the same order.
        $(#[doc = $doc])*
        $vis fn $visit(
            &$self,
            $($sk: &$socket,)?
            visit: &mut $crate::state::state!(@visitor $value),
        ) {
            $($(if $when)? {
                $crate::state::state!(@show visit, $value, $name, $kind, $shown);
            })*
        }
    };
    (@name $visit:ident, $value:ident, $name:ident, of, $part:ty) => {
        <$part>::visit_fields($visit)
    };
    (@name $visit:ident, $value:ident, $name:ident, $kind:ident) => {
        $visit(paceline_units::Field {
            name: stringify!($name),
            quantity: $crate::state::state!(@quantity $value $kind),
        })
    };
    (@show $visit:ident, $value:ident, $name:ident, of, $show:expr) => {
        ($show)(&mut *$visit)
    };
    (@show $visit:ident, $value:ident, $name:ident, $kind:ident, $shown:expr) => {
        $crate::state::state!(@put $visit, $value, stringify!($name), $value::$kind($shown))
    };
    (@visitor Value) => { paceline_units::Visitor<'_> };
    (@put $visit:ident, Value, $name:expr, $shown:expr) => { $visit.show($name, $shown) };
    (@visitor $value:ident) => { (impl FnMut(&'static str, $value) + ?Sized) };
    (@put $visit:ident, $value:ident, $name:expr, $shown:expr) => { $visit($name, $shown) };
    // The quantities of Linux's values; packets are shown as bytes.
    (@quantity Field Packets) => { paceline_units::Quantity::Bytes };
    (@quantity Field Bandwidth) => { paceline_units::Quantity::Rate };
    (@quantity Field BytesPerSec) => { paceline_units::Quantity::Rate };
    (@quantity Field Micros) => { paceline_units::Quantity::Duration };
    (@quantity $value:ident $kind:ident) => { paceline_units::Quantity::$kind };
}
pub(crate) use state;
