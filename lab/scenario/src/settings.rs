//! The values of keys, as the record shows their changes.

use duplicate::duplicate_item;
use paceline_units::options::Parameters;
use paceline_units::{
    AckFilter, App, BurstLoss, Bytes, Duration, Gain, Hold, Loss, Policer, Rate, Reorder, Setting,
    Value,
};

use crate::app::AppChange;
use crate::link::PolicerChange;
use crate::packets::Packets;

/// A value of a key, as the record shows it.
pub trait Settings {
    /// Each of its parts by its name, or all of it without one.
    fn settings(&self) -> Vec<(&'static str, Setting)>;
}

#[duplicate_item(Amount; [Bytes]; [Rate]; [Duration]; [Gain])]
impl Settings for Amount {
    fn settings(&self) -> Vec<(&'static str, Setting)> {
        vec![("", Setting::Value(Value::Amount(*self)))]
    }
}

#[duplicate_item(Table; [BurstLoss]; [Policer]; [Reorder])]
impl Settings for Table {
    fn settings(&self) -> Vec<(&'static str, Setting)> {
        let options = Self::OPTIONS.iter();
        options
            .filter_map(|option| Some((option.name, Setting::Value((option.get)(self).value()?))))
            .collect()
    }
}

impl Settings for Hold {
    fn settings(&self) -> Vec<(&'static str, Setting)> {
        let packets = Value::Packets(self.packets.into());
        vec![
            ("packets", Setting::Value(packets)),
            ("delay", Setting::Value(Value::Duration(self.delay))),
        ]
    }
}

impl Settings for Packets {
    fn settings(&self) -> Vec<(&'static str, Setting)> {
        vec![("", Setting::Value(Value::Packets(self.0.into())))]
    }
}

impl Settings for AckFilter {
    fn settings(&self) -> Vec<(&'static str, Setting)> {
        vec![("", Setting::Word(self.word()))]
    }
}

impl Settings for Loss {
    fn settings(&self) -> Vec<(&'static str, Setting)> {
        match self {
            Self::Independent(share) => share.settings(),
            Self::Burst(burst) => burst.settings(),
        }
    }
}

impl Settings for PolicerChange {
    fn settings(&self) -> Vec<(&'static str, Setting)> {
        match self {
            Self::Off => vec![("", Setting::Word("off"))],
            Self::Set(policer) => policer.settings(),
        }
    }
}

impl Settings for App {
    fn settings(&self) -> Vec<(&'static str, Setting)> {
        let time = |time| Setting::Value(Value::Duration(time));
        let at = |rate| ("rate", Setting::Value(Value::Rate(rate)));
        match *self {
            Self::Bulk => vec![("", Setting::Word("bulk"))],
            Self::Sized { size } => vec![("size", Setting::Value(Value::Bytes(size)))],
            Self::Limited { rate } => vec![at(rate)],
            Self::OnOff { on, off, rate } => {
                let mut settings = vec![("on", time(on)), ("off", time(off))];
                settings.extend(rate.map(at));
                settings
            }
        }
    }
}

impl Settings for AppChange {
    fn settings(&self) -> Vec<(&'static str, Setting)> {
        match self {
            Self::Pause => vec![("", Setting::Word("pause"))],
            Self::Resume => vec![("", Setting::Word("resume"))],
            Self::Set(app) => app.settings(),
        }
    }
}
