//! Tables of a record.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{DeriveInput, Error, LitInt, LitStr, Result};

use crate::declaration::{attribute, docs, fields};

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let row = &input.ident;
    let growing = format_ident!("{row}Columns");
    let about = docs(&input.attrs, row)?;
    let message = "a row has the name of its table: `#[row(\"queue\")]`";
    let name = attribute(&input.attrs, "row").ok_or_else(|| Error::new(row.span(), message))?;
    let name: LitStr = name.parse_args()?;
    let (mut field, mut kind, mut columns) = (Vec::new(), Vec::new(), Vec::new());
    for (ident, declared) in fields(input)? {
        let docs = docs(&declared.attrs, ident)?;
        let cell = &declared.ty;
        let since = attribute(&declared.attrs, "since").map(|since| since.parse_args::<LitInt>());
        // The first version, unless another is given.
        let since = since.transpose()?.into_iter();
        columns.push(quote! {
            crate::column::Column {
                name: {
                    let name = stringify!(#ident);
                    assert!(
                        crate::table::ends_in(name, <#cell as crate::column::Cell>::SUFFIX),
                        "the name of a column ends in the unit of its cells",
                    );
                    name
                },
                kind: <#cell as crate::column::Cell>::KIND,
                nullable: <#cell as crate::column::Cell>::NULLABLE,
                since: [#(#since,)* 1][0],
                doc: concat!(#(#docs),*),
                words: <#cell as crate::column::Cell>::WORDS,
            }
        });
        field.push(ident);
        kind.push(cell);
    }
    Ok(quote! {
        pub(crate) struct #growing {
            #(#field: <#kind as crate::column::Cell>::Cells),*
        }

        impl crate::table::Row for #row {
            const TABLE: crate::table::Table = crate::table::Table {
                name: #name,
                doc: concat!(#(#about),*),
                columns: &[#(#columns),*],
            };
            type Columns = #growing;

            fn columns(period: usize) -> #growing {
                #growing { #(#field: crate::column::Cells::new(period)),* }
            }

            fn push(self, columns: &mut #growing) {
                #(crate::column::Cell::push(self.#field, &mut columns.#field);)*
            }

            fn finish(columns: #growing) -> Vec<crate::column::Complete> {
                vec![#(crate::column::Complete::new::<#kind>(columns.#field)),*]
            }

            #[cfg(feature = "folder")]
            fn so_far(columns: &#growing) -> Vec<crate::column::SoFar<'_>> {
                vec![#(crate::column::Cells::so_far(&columns.#field)),*]
            }

            fn numbers(columns: &#growing, name: &str, from: usize) -> Option<Vec<f64>> {
                match name {
                    #(stringify!(#field) => crate::column::drawn::<#kind>(&columns.#field, from),)*
                    _ => None,
                }
            }
        }
    })
}
